"""A share of a data set, the same each time."""

from typing import Any

import torch
from torch.utils.data import IterableDataset, Subset

from legroom.errors import UsageError


def part_of(dataset: Any, fraction: float, *, own_loader: bool) -> Any:
    """What the data set says itself of its part, by a method `part(fraction)`; else samples drawn at random.

    A job's own loader may need more of a data set than its samples, and running text has no samples to draw.

    >>> part_of(list(range(8)), 0.5, own_loader=False).indices == part_of(list(range(8)), 0.5, own_loader=False).indices
    True
    """
    if fraction == 1:
        return dataset
    if hasattr(dataset, "part"):
        return dataset.part(fraction)
    if own_loader or isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
        raise UsageError(
            "This job's training data is laid out by its own loader, or is iterable, so legroom cannot take a share of "
            "it. Give the data set a method part(fraction) that returns a smaller one, or use all of it"
        )
    order = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(0))
    return Subset(dataset, order[: max(1, round(fraction * len(dataset)))].tolist())
