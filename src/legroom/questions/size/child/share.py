"""The share of the data that a trial has: another one for each seed, so that seeds differ by their samples too."""

from typing import Any

import torch
from torch.utils.data import IterableDataset, Subset

from legroom.training.data.part import part_of


def share_of(dataset: Any, fraction: float, seed: int, *, own_loader: bool) -> Any:
    """Samples drawn by the seed; of data that say themselves what a part of them is, always that part.

    >>> [list(share_of(list(range(8)), 0.25, seed, own_loader=False)) for seed in (0, 0, 1)]
    [[2, 4], [2, 4], [7, 5]]
    """
    if fraction == 1 or own_loader or hasattr(dataset, "part") or not _has_samples(dataset):
        return part_of(dataset, fraction, own_loader=own_loader)
    order = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(seed))
    return part_of(Subset(dataset, order.tolist()), fraction, own_loader=False)


def _has_samples(dataset: Any) -> bool:
    return hasattr(dataset, "__len__") and not isinstance(dataset, IterableDataset)
