"""The order of the training samples: another one each epoch, the same for the same seed, entered at any place."""

from collections.abc import Iterator

import torch
from torch.utils.data import Sampler


class EpochOrder(Sampler[int]):
    """All indices shuffled by seed and epoch.

    >>> order = EpochOrder(6, seed=0)
    >>> whole = list(order)
    >>> order.enter(epoch=0, start=4)
    >>> list(order) == whole[4:]
    True
    >>> order.enter(epoch=1)
    >>> list(order) == whole
    False
    """

    def __init__(self, num_samples: int, seed: int) -> None:
        self.num_samples, self.seed = num_samples, seed
        self.epoch = self.start = 0

    def enter(self, epoch: int, start: int = 0) -> None:
        """The next pass is that epoch's, from that place on."""
        self.epoch, self.start = epoch, start

    def __len__(self) -> int:
        # torch's loader asks for the length of an epoch, wherever this pass begins.
        return self.num_samples

    def __iter__(self) -> Iterator[int]:
        chance = torch.Generator().manual_seed(epoch_seed(self.seed, self.epoch))
        return iter(torch.randperm(self.num_samples, generator=chance)[self.start :].tolist())


def epoch_seed(seed: int, epoch: int) -> int:
    """A seed for that epoch, far from those of other epochs and seeds."""
    return (seed * 1_000_003 + epoch * 7_919 + 1) % 2**63
