"""The network of Deep Speech 2 with CTC (Amodei et al. 2015, arXiv:1512.02595), and how its spelling is judged."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from legroom.job import Batch

BLANK = 0


class DeepSpeech(nn.Module):
    """Two convolutions over pitch and time, which halve time once, then bidirectional LSTMs, then the letters.

    Recordings are packed: what a shorter one gives does not depend on how much it is padded.
    """

    def __init__(self, num_bands: int, num_letters: int, hidden: int, num_layers: int) -> None:
        super().__init__()
        channels = max(1, hidden // 4)
        self.first = _convolution(1, channels, (41, 11), (2, 2))
        self.second = _convolution(channels, channels, (21, 11), (2, 1))
        bands = -(-num_bands // 4)
        self.recur = nn.LSTM(channels * bands, hidden, num_layers, batch_first=True, bidirectional=True)
        self.letters = nn.Linear(2 * hidden, 1 + num_letters)

    def forward(self, sounds: torch.Tensor, lengths: Sequence[int]) -> torch.Tensor:
        """Logarithms of the letters' chances at every second row."""
        halves = torch.tensor(halve(lengths))
        heard = self.first(sounds.transpose(1, 2).unsqueeze(1))
        known = torch.arange(heard.shape[3], device=heard.device) < halves.to(heard.device, non_blocking=True)[:, None]
        known = known[:, None, None]
        heard = self.second(heard * known) * known
        rows = heard.flatten(1, 2).transpose(1, 2)
        packed, _ = self.recur(pack_padded_sequence(rows, halves, batch_first=True, enforce_sorted=False))
        states, _ = pad_packed_sequence(packed, batch_first=True, total_length=rows.shape[1])
        return self.letters(states).float().log_softmax(2)  # type: ignore[no-any-return]


def halve(lengths: Sequence[int]) -> list[int]:
    """Rows that are left of so many."""
    return [-(-length // 2) for length in lengths]


def ctc_loss(model: nn.Module, batch: Batch) -> torch.Tensor:
    """CTC's loss for each letter, the mean over recordings; those too short for their letters weigh nothing."""
    sounds, letters, lengths, num_letters = batch
    spelled = model(sounds, lengths).transpose(0, 1)
    # torch takes numbers as well as tensors here, which its types do not say; tensors it would read from the device.
    numbers: tuple[Any, Any] = tuple(halve(lengths)), tuple(num_letters)
    return nn.functional.ctc_loss(spelled, letters, *numbers, blank=BLANK, zero_infinity=True)


def count_errors(model: nn.Module, batch: Batch) -> tuple[int, int]:
    """Letters that must be changed, put in or taken out, of how many there are. Spelled by the best letter a row."""
    sounds, letters, lengths, num_letters = batch
    best = model(sounds, lengths).argmax(2).cpu().numpy()
    spelled = [collapse(row[:length]) for row, length in zip(best, halve(lengths), strict=True)]
    truth = [row[:length] for row, length in zip(letters.cpu().numpy(), num_letters, strict=True)]
    return sum(edit_distance(said, true) for said, true in zip(spelled, truth, strict=True)), sum(num_letters)


def collapse(row: np.ndarray) -> np.ndarray:
    """CTC's reading of a row: repeats are one letter, blanks none.

    >>> collapse(np.array([0, 3, 3, 0, 3, 5, 5])).tolist()
    [3, 3, 5]
    """
    changes = np.append(True, row[1:] != row[:-1]) if len(row) else np.zeros(0, bool)
    kept = np.asarray(row[changes])
    return np.asarray(kept[kept != BLANK])


def edit_distance(said: np.ndarray, truth: np.ndarray) -> int:
    """Fewest changes that turn one into the other (Levenshtein), a row of the table at a time.

    >>> edit_distance(np.array([1, 2, 3]), np.array([1, 3, 3, 4]))
    2
    """
    places = np.arange(len(truth) + 1)
    row = places
    for number, letter in enumerate(said, 1):
        changed = np.minimum(row[1:] + 1, row[:-1] + (truth != letter))
        # Letters put in cost one a place: the least of what lies to the left, less its place, plus this one's.
        row = np.minimum.accumulate(np.append(number, changed) - places) + places
    return int(row[-1])


def _convolution(num_in: int, num_out: int, size: tuple[int, int], stride: tuple[int, int]) -> nn.Sequential:
    padding = (size[0] // 2, size[1] // 2)
    return nn.Sequential(
        nn.Conv2d(num_in, num_out, size, stride, padding, bias=False), nn.BatchNorm2d(num_out), nn.Hardtanh(0, 20)
    )
