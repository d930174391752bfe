"""What one of several ranks reads: its batches out of an order that is the same whatever their number.

An update takes the next samples of the order, batch after batch, rank after rank: batch p of rank r is batch p * N + r.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sized
from typing import Any

from torch.utils.data import IterableDataset, Sampler

from legroom.errors import UsageError
from legroom.job import Batch


class RankOrder(Sampler[int]):
    """Of an order of samples, those of one rank; what does not fill a batch of every rank is left out, unless kept.

    >>> [list(RankOrder(range(9), rank, 2, batch_size=2)) for rank in (0, 1)]
    [[0, 1, 4, 5], [2, 3, 6, 7]]
    >>> [list(RankOrder(range(9), rank, 2, batch_size=2, keep_rest=True)) for rank in (0, 1)]
    [[0, 1, 4, 5, 8], [2, 3, 6, 7]]
    """

    def __init__(self, order: Any, number: int, num_ranks: int, *, batch_size: int, keep_rest: bool = False) -> None:
        self.order, self.number, self.num_ranks = order, number, num_ranks
        self.batch_size, self.keep_rest = batch_size, keep_rest

    @property
    def num_samples(self) -> int:
        """Of all ranks."""
        return len(self.order)

    def enter(self, epoch: int, start: int = 0) -> None:
        """The next pass is that epoch's, from that place of the whole order on."""
        self.order.enter(epoch, start)

    def __len__(self) -> int:
        if self.keep_rest:
            return sum(1 for _ in self)
        return len(self.order) // (self.batch_size * self.num_ranks) * self.batch_size

    def __iter__(self) -> Iterator[int]:
        return deal(self.order, self.number, self.num_ranks, self.batch_size, keep_rest=self.keep_rest)


class StreamShare(IterableDataset[Any]):
    """Of a stream, the samples of one rank. Every rank reads all of it: that is what a stream allows.

    In loader processes each shares out what it reads there, so that no sample comes twice.
    """

    def __init__(
        self, stream: Iterable[Any], number: int, num_ranks: int, *, batch_size: int, keep_rest: bool = False
    ) -> None:
        self.stream, self.number, self.num_ranks = stream, number, num_ranks
        self.batch_size, self.keep_rest = batch_size, keep_rest

    def __iter__(self) -> Iterator[Any]:
        return deal(self.stream, self.number, self.num_ranks, self.batch_size, keep_rest=self.keep_rest)


def deal(items: Iterable[Any], number: int, num_ranks: int, size: int, *, keep_rest: bool) -> Iterator[Any]:
    """The items of one rank: every num_ranks-th block of `size`, of rounds that are whole unless the rest is kept."""
    source = iter(items)
    while True:
        mine: list[Any] = []
        num_read = 0
        for item in itertools.islice(source, size * num_ranks):
            if num_read // size == number:
                mine.append(item)
            num_read += 1
        if keep_rest or num_read == size * num_ranks:
            yield from mine
        if num_read < size * num_ranks:
            return


class DealtBatches:
    """Of the batches that a job's own loader gives, every num_ranks-th. All ranks build all: only the job could not."""

    def __init__(self, loader: Iterable[Batch], number: int, num_ranks: int) -> None:
        self.loader, self.number, self.num_ranks = loader, number, num_ranks

    def __iter__(self) -> Iterator[Batch]:
        for place, batch in enumerate(self.loader):
            if isinstance(batch, Mapping) and "first" in batch:
                raise UsageError(
                    "This job's loader says which batch is the `first`: its batches carry state from one to the next, "
                    "and cannot be dealt out to several devices. Train it with --devices 1"
                )
            if place % self.num_ranks == self.number:
                yield batch


class CountedBatches(DealtBatches):
    """The same, of a loader that knows its length."""

    def __len__(self) -> int:
        assert isinstance(self.loader, Sized)
        return len(self.loader) // self.num_ranks
