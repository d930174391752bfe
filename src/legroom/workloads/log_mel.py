"""Sound as a picture of its pitches: the logarithm of its power in bands as the ear parts them."""

from functools import cache

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

WINDOW_SECONDS = 0.025
HOP_SECONDS = 0.010
FLOOR = 1e-8
"""Power that is added, so that silence has a logarithm."""


def log_mel(sound: np.ndarray, rate: int, num_bands: int) -> np.ndarray:
    """Rows of `num_bands` numbers every 10 ms, each band of mean 0 and spread 1 over the recording.

        row(t) = log(bands @ |FFT(hann * sound[t:t+25 ms])|^2)

    >>> log_mel(np.sin(np.arange(8000)), 8000, 40).shape
    (98, 40)
    """
    window, hop = round(WINDOW_SECONDS * rate), round(HOP_SECONDS * rate)
    sound = np.pad(sound, (0, max(0, window - len(sound))))
    frames = sliding_window_view(sound, window)[::hop] * np.hanning(window)
    size = 1 << (window - 1).bit_length()
    power = np.abs(np.fft.rfft(frames, size)) ** 2
    rows = np.log(power @ mel_bands(rate, size, num_bands).T + FLOOR)
    return ((rows - rows.mean(0)) / (rows.std(0) + 1e-3)).astype(np.float32)  # type: ignore[no-any-return]


@cache
def mel_bands(rate: int, size: int, num_bands: int) -> np.ndarray:
    """Triangles over the frequencies of an FFT, even on the mel scale: 2595 log10(1 + f/700)."""
    top = 2595 * np.log10(1 + rate / 2 / 700)
    edges = 700 * (10 ** (np.linspace(0, top, num_bands + 2) / 2595) - 1)
    low, middle, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    frequencies = np.fft.rfftfreq(size, 1 / rate)
    return np.minimum((frequencies - low) / (middle - low), (high - frequencies) / (high - middle)).clip(0)
