"""Feeds a run: groups of batches, an epoch at a time, entered at any place."""

import itertools
from collections.abc import Iterator, Sequence, Sized
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset, Sampler

from legroom.errors import UsageError
from legroom.job import Batch, Job, Settings
from legroom.training.data.loader import end_workers, make_loader
from legroom.training.data.shares import CountedBatches, DealtBatches, RankOrder, StreamShare
from legroom.training.hanging import WorkerPlaces
from legroom.training.ranks import ONE_RANK, OneRank
from legroom.training.rng import restore_rng, rng_state, seed_all
from legroom.training.torch_internals import iterator_of, processes_of

_ABANDONED: list[Any] = []
"""Iterators whose collection would wait for their processes."""


class Feed:
    """The training batches of a run, `accumulation_steps` of them for an update."""

    def __init__(
        self, job: Job, dataset: Any, settings: Settings, device: torch.device, ranks: OneRank = ONE_RANK
    ) -> None:
        self.settings, self.ranks = settings, ranks
        self.round_size = settings.batch_size * ranks.num_ranks
        """Samples of a batch of every rank."""
        self.generator = torch.Generator()
        ordered = job.loader is None and not isinstance(dataset, IterableDataset)
        if ordered:
            _refuse_few(len(dataset), settings.batch_size, ranks.num_ranks)
        self.order = order_of(len(dataset), settings, ranks) if ordered else None
        self.loader: Any = make_loader(
            job,
            share_stream(job, dataset, settings, ranks),
            settings,
            train=True,
            device=device,
            sampler=self.order,
            generator=self.generator,
        )
        self.loader = deal_batches(job, self.loader, ranks)
        self.places: WorkerPlaces | None = None
        if ordered and settings.num_workers:
            assert isinstance(self.loader, DataLoader)
            self.places = WorkerPlaces(settings.num_workers, self.loader.worker_init_fn)
            self.loader.worker_init_fn = self.places
        self.num_batches = self._count(job)

    def _count(self, job: Job) -> int | None:
        """Batches of an epoch; None where nobody knows before it has been read."""
        try:
            return len(self.loader) if isinstance(self.loader, Sized) else None
        except TypeError:  # torch's loader over iterable data without a length
            return job.num_samples // self.round_size if job.num_samples else None

    @property
    def steps_per_epoch(self) -> int | None:
        """Updates of an epoch; the last may join fewer batches."""
        return None if self.num_batches is None else -(-self.num_batches // self.settings.accumulation_steps)

    def groups(self, epoch: int, start: int) -> Iterator[list[Batch]]:
        """Groups of that epoch after its first `start` samples, those of all ranks counted.

        Where the order is ours, the batches before are not built. Else they are read and thrown away.
        """
        self.generator.manual_seed(epoch_seed(self.settings.seed, epoch))
        if self.order is not None:
            self.order.enter(epoch, start)
            start = 0
        iterator = iter(self.loader)
        if self.order is None and self.ranks.num_ranks > 1:
            return self._grouped_together(self._begun_alike(iterator, epoch), start // self.round_size)
        for _ in range(start // self.round_size):
            next(iterator, None)
        return self._grouped(iterator)

    def _grouped(self, batches: Iterator[Batch]) -> Iterator[list[Batch]]:
        while group := list(itertools.islice(batches, self.settings.accumulation_steps)):
            yield group

    def _grouped_together(self, batches: Iterator[Batch], num_skipped: int) -> Iterator[list[Batch]]:
        """As many batches as every rank has: whose data is not ours to order may differ in their number."""
        for _ in range(num_skipped):
            next(batches, None)
        while True:
            group = list(itertools.islice(batches, self.settings.accumulation_steps))
            if not (num := self.ranks.fewest(len(group))):
                return
            yield group[:num]

    def _begun_alike(self, batches: Iterator[Batch], epoch: int) -> Iterator[Batch]:
        """Let a loader that shuffles by itself do so alike on all ranks, whose random numbers differ."""
        own = rng_state()
        seed_all(epoch_seed(self.settings.seed, epoch) % 2**32)
        begun = list(itertools.islice(batches, 1))
        restore_rng(own)
        return itertools.chain(begun, batches)

    def samples(self, epoch: int, position: int) -> list[int]:
        """Indices of the group at `position`; empty where the order is not ours."""
        if self.order is None:
            return []
        size = self.settings.batch_size
        order = order_of(self.order.num_samples, self.settings, self.ranks)
        order.enter(epoch, position * self.round_size)
        return list(itertools.islice(order, size * self.settings.accumulation_steps))

    def stuck_sample(self, samples: Sequence[int]) -> int | None:
        """The sample of these that a loader process is at; None where there is no such process, or it hears nothing."""
        iterator = iterator_of(self.loader)
        if self.places is None or iterator is None:
            return None
        return self.places.among(samples, processes_of(iterator))

    def abandon(self) -> None:
        """Leave the loader processes to the end of this one: to end those that hang takes 5 s each."""
        _ABANDONED.append(iterator_of(self.loader))

    def close(self) -> None:
        """End loader processes."""
        end_workers(iterator_of(self.loader))


def order_of(num_samples: int, settings: Settings, ranks: OneRank) -> "EpochOrder | RankOrder":
    """The order in which this rank reads, the same for each number of ranks that make up an update."""
    order = EpochOrder(num_samples, settings.seed)
    if ranks.num_ranks == 1:
        return order
    return RankOrder(order, ranks.number, ranks.num_ranks, batch_size=settings.batch_size)


def share_stream(job: Job, dataset: Any, settings: Settings, ranks: OneRank, *, keep_rest: bool = False) -> Any:
    """The data set, or the share of a stream that is this rank's."""
    if ranks.num_ranks == 1 or job.loader is not None or not isinstance(dataset, IterableDataset):
        return dataset
    size = settings.batch_size
    return StreamShare(dataset, ranks.number, ranks.num_ranks, batch_size=size, keep_rest=keep_rest)


def deal_batches(job: Job, loader: Any, ranks: OneRank) -> Any:
    """The loader, or this rank's batches of a job's own."""
    if ranks.num_ranks == 1 or job.loader is None:
        return loader
    kind = CountedBatches if isinstance(loader, Sized) else DealtBatches
    return kind(loader, ranks.number, ranks.num_ranks)


def _refuse_few(num_samples: int, batch_size: int, num_ranks: int) -> None:
    if num_samples >= batch_size * num_ranks:
        return
    what = (
        f"one batch of {batch_size:,}"
        if num_ranks == 1
        else f"a batch of {batch_size:,} on each of {num_ranks} devices"
    )
    most = f"Use a batch of at most {num_samples // num_ranks:,}" if num_samples >= num_ranks else "Use fewer devices"
    raise UsageError(f"The training data has {num_samples:,} samples, fewer than {what}. {most}")


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
        generator = torch.Generator().manual_seed(epoch_seed(self.seed, self.epoch))
        return iter(torch.randperm(self.num_samples, generator=generator)[self.start :].tolist())


def epoch_seed(seed: int, epoch: int) -> int:
    """A seed for that epoch, far from those of other epochs and seeds."""
    return (seed * 1_000_003 + epoch * 7_919 + 1) % 2**63
