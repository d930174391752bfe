"""Rows of unequal length in one flat array, as they lie on disk; padded when a batch is taken."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

PAD = 0
"""The number that fills a row up."""


class Ragged:
    """Rows of numbers, read from the flat array without a copy of it."""

    def __init__(self, flat: npt.NDArray[Any], ends: npt.NDArray[Any]) -> None:
        self.flat, self.ends = flat, ends
        self.starts = np.concatenate([[0], ends])

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> Self:
        """These rows."""
        flat = np.fromiter((number for row in rows for number in row), np.int64)
        return cls(flat, np.cumsum([len(row) for row in rows], dtype=np.int64))

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Numbers in each row."""
        return np.diff(self.starts)

    def select(self, chosen: npt.NDArray[np.bool_]) -> "Ragged":
        """The chosen rows.

        >>> Ragged.of([[5], [6, 7], [8]]).select(np.array([True, False, True])).flat.tolist()
        [5, 8]
        """
        lengths = self.lengths
        return Ragged(self.flat[np.repeat(chosen, lengths)], np.cumsum(lengths[chosen]))

    def join(self, rows: npt.NDArray[np.integer]) -> npt.NDArray[Any]:
        """The numbers of these rows, one after another.

        >>> Ragged.of([[5], [6, 7]]).join(np.array([1, 0, 1])).tolist()
        [6, 7, 5, 6, 7]
        """
        lengths = self.lengths[rows]
        before = np.cumsum(lengths) - lengths
        return self.flat[np.repeat(self.starts[rows] - before, lengths) + np.arange(int(lengths.sum()))]

    def padded(self, rows: npt.NDArray[np.int64], width: int) -> npt.NDArray[np.int64]:
        """These rows side by side, each filled up to the width.

        >>> Ragged.of([[5], [6, 7]]).padded(np.array([1, 0]), 3).tolist()
        [[6, 7, 0], [5, 0, 0]]
        """
        starts, places = self.starts[rows], np.arange(width)
        held = places < (self.starts[rows + 1] - starts)[:, None]
        index = np.minimum(starts[:, None] + places, len(self.flat) - 1)
        return np.where(held, self.flat[index], PAD).astype(np.int64)
