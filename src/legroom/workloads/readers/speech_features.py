"""Recordings as log-mel features and letters: made once, kept in the cache, and padded a batch at a time."""

from collections.abc import Sequence
from functools import cache
from typing import Any, Literal

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset

from legroom.errors import UsageError
from legroom.workloads.readers.cache import Prepared, load_or_make
from legroom.workloads.readers.class_folders import Skips
from legroom.workloads.readers.recordings import Recording, Recordings, read_wav

LETTERS = " 'abcdefghijklmnopqrstuvwxyz"
"""Number 1 is the first; 0 is CTC's blank."""
NUM_BANDS = 40
WINDOW_SECONDS, HOP_SECONDS = 0.025, 0.010
FLOOR = 1e-8
"""Power that is added, so that silence has a logarithm."""

HeldOut = Literal["take", "speaker"]
Sound = tuple[torch.Tensor, torch.Tensor]
"""Rows of features, and the letters that are said."""


class Sounds(Dataset[Sound]):
    """Some of the prepared recordings."""

    def __init__(self, prepared: Prepared, rows: np.ndarray, *, train: bool) -> None:
        self.arrays, self.rows, self.train = prepared.arrays, rows, train
        self.lengths = np.diff(self.arrays["starts"])[rows]
        """Rows of features of each."""

    def __len__(self) -> int:
        return len(self.rows)

    def truths(self) -> list[bytes]:
        """The letters of each, a byte a letter."""
        starts = self.arrays["letter_starts"]
        return [self.arrays["letters"][starts[row] : starts[row + 1]].tobytes() for row in self.rows]

    def __getitem__(self, index: int) -> Sound:
        row, arrays = self.rows[index], self.arrays
        features = arrays["features"][arrays["starts"][row] : arrays["starts"][row + 1]]
        letters = arrays["letters"][arrays["letter_starts"][row] : arrays["letter_starts"][row + 1]]
        return torch.from_numpy(features.astype(np.float32)), torch.from_numpy(letters.astype(np.int64))


def pad(samples: Sequence[Sound]) -> tuple[torch.Tensor, torch.Tensor, list[int], list[int]]:
    """Features and letters, each padded to the longest, and their lengths.

    The lengths stay lists: packing and CTC want them on the host, and a tensor would have to be waited for.
    """
    features, letters = [rows for rows, _ in samples], [spelled for _, spelled in samples]
    num_rows, num_letters = [len(rows) for rows in features], [len(spelled) for spelled in letters]
    return pad_sequence(features, batch_first=True), pad_sequence(letters, batch_first=True), num_rows, num_letters


def spell(words: str) -> list[int]:
    """Numbers of the letters; what is no letter is left out.

    >>> spell("Nine!")
    [16, 11, 16, 7]
    """
    return [LETTERS.index(letter) + 1 for letter in words.lower() if letter in LETTERS]


def prepare(recordings: Recordings) -> Prepared:
    """Features and letters of all recordings, from the cache where these have been read before."""
    options = {"kind": "speech", "bands": NUM_BANDS, "letters": LETTERS}
    return load_or_make([recordings.identity], options, lambda: _make(recordings))


def _make(recordings: Recordings) -> Prepared:
    found: list[Recording] = list(recordings.each())
    skips = Skips(len(found))
    features, letters, kept = [], [], []
    for recording in found:
        try:
            features.append(log_mel(*read_wav(recording.read()), NUM_BANDS).astype(np.float16))
        except (OSError, ValueError) as error:
            skips.add(recording.name, error)
            continue
        letters.append(spell(recording.words))
        kept.append(recording)
    if not kept:
        raise UsageError("No recording of this data can be read")
    return gather(features, letters, kept, num_skipped=len(skips.names))


def gather(features: list[np.ndarray], letters: list[list[int]], kept: list[Recording], num_skipped: int) -> Prepared:
    """One flat array of each kind, with where every recording starts in it."""
    arrays: dict[str, np.ndarray] = {
        "features": np.concatenate(features),
        "starts": np.cumsum([0, *(len(rows) for rows in features)]),
        "letters": np.concatenate([np.array(each, np.uint8) for each in letters]),
        "letter_starts": np.cumsum([0, *(len(each) for each in letters)]),
        "is_test": np.array([recording.published_as_test for recording in kept]),
    }
    return Prepared(arrays=arrays, facts={"speakers": [each.speaker for each in kept], "num_skipped": num_skipped})


def split(prepared: Prepared, held_out: HeldOut) -> tuple[Sounds, Sounds]:
    """Training and held-out recordings: the publisher's test takes, or a fifth of the speakers, the last by name."""
    speakers = np.array(prepared.facts["speakers"])
    names: Any = np.unique(speakers)
    out = prepared.arrays["is_test"]
    if held_out == "speaker":
        out = np.isin(speakers, names[-max(1, len(names) // 5) :])
    if out.all() or not out.any():
        raise UsageError(f"Of {len(out):,} recordings of {len(names)} speakers none is left to train on or to hold out")
    return Sounds(prepared, np.flatnonzero(~out), train=True), Sounds(prepared, np.flatnonzero(out), train=False)


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
