"""Feeds a run: groups of batches, an epoch at a time, entered at any place."""

import itertools
from collections.abc import Iterator, Sequence, Sized
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset, Sampler

from legroom.errors import UsageError
from legroom.job import Batch, Job, Settings
from legroom.training.data.loader import end_workers, make_loader
from legroom.training.hanging import WorkerPlaces
from legroom.training.torch_internals import iterator_of, processes_of

_ABANDONED: list[Any] = []
"""Iterators whose collection would wait for their processes."""


class Feed:
    """The training batches of a run, `accumulation_steps` of them for an update."""

    def __init__(self, job: Job, dataset: Any, settings: Settings, device: torch.device) -> None:
        self.settings = settings
        self.generator = torch.Generator()
        ordered = job.loader is None and not isinstance(dataset, IterableDataset)
        if ordered and len(dataset) < settings.batch_size:
            raise UsageError(
                f"The training data has {len(dataset):,} samples, fewer than one batch of {settings.batch_size:,}. "
                f"Use a batch of at most {len(dataset):,}"
            )
        self.order = EpochOrder(len(dataset), settings.seed) if ordered else None
        self.loader: Any = make_loader(
            job, dataset, settings, train=True, device=device, sampler=self.order, generator=self.generator
        )
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
            return job.num_samples // self.settings.batch_size if job.num_samples else None

    @property
    def steps_per_epoch(self) -> int | None:
        """Updates of an epoch; the last may join fewer batches."""
        return None if self.num_batches is None else -(-self.num_batches // self.settings.accumulation_steps)

    def groups(self, epoch: int, start: int) -> Iterator[list[Batch]]:
        """Groups of that epoch after its first `start` samples.

        Where the order is ours, the batches before are not built. Else they are read and thrown away.
        """
        self.generator.manual_seed(epoch_seed(self.settings.seed, epoch))
        if self.order is not None:
            self.order.enter(epoch, start)
            start = 0
        iterator = iter(self.loader)
        for _ in range(start // self.settings.batch_size):
            next(iterator, None)
        return self._grouped(iterator)

    def _grouped(self, batches: Iterator[Batch]) -> Iterator[list[Batch]]:
        while group := list(itertools.islice(batches, self.settings.accumulation_steps)):
            yield group

    def samples(self, epoch: int, position: int) -> list[int]:
        """Indices of the group at `position`; empty where the order is not ours."""
        if self.order is None:
            return []
        size = self.settings.batch_size
        order = EpochOrder(self.order.num_samples, self.settings.seed)
        order.enter(epoch, position * size)
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
