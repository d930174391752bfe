"""Batches for probes: of any size, from few samples, the largest the data holds or an even spread of them."""

import itertools
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.utils.data import Dataset, IterableDataset, default_collate

from legroom.errors import JobRaised, LegroomError
from legroom.job import Batch, Job
from legroom.training.data.batch import holds_nan, num_bytes, tensors_of

NUM_POOLED = 64
"""Distinct samples in a probe's batch: memory depends on their shapes alone, so more would only cost time."""
NUM_LARGEST = 8
NUM_SCANNED = 512
NUM_AHEAD, NUM_EVALUATED = 2, 8
"""Batches that let loader processes work ahead in training, and fill their queues in an evaluation."""
SCAN_SECONDS = 2.0
WIDE_BYTES = 2**28
"""A loader that gives batches of this size is not short of data."""


class NoBatch(LegroomError):
    """The job's own loader has no batch of that size."""


class BatchSource:
    """Batches of one data set. Samples repeat where the data set is smaller than the batch."""

    def __init__(self, job: Job, dataset: Any, name: str) -> None:
        self.job, self.dataset, self.name = job, dataset, name
        self.sizes: list[tuple[float, int]] = []
        """(size, position) of the samples looked at."""
        self.samples: dict[int, Any] = {}
        self.read_seconds: list[float] = []
        """What reading samples took that were looked at, one after the other."""
        self.with_nan: list[int] = []
        """Positions of samples looked at that hold NaN or infinity."""
        if self.num_samples == 0:
            use = "validate" if name == "valid_data" else "train"
            raise JobRaised(f"{name}() returned an empty data set. legroom needs at least one sample to {use} on")
        if job.loader is None:
            self._scan()

    @property
    def num_samples(self) -> int | None:
        """How many samples there are, if anybody knows."""
        if isinstance(self.dataset, IterableDataset) and self.name == "train_data":
            return self.job.num_samples
        return len(self.dataset) if hasattr(self.dataset, "__len__") else None

    def batches(self, batch_size: int, kind: str) -> Iterator[Batch]:
        """Batches without end; the job's own loader starts anew where it ends, as an epoch does."""
        if self.job.loader is not None:
            yield from self._own_batches(batch_size)
        batch = self._collate(batch_size, kind)
        if next(tensors_of(batch), None) is None:
            raise JobRaised(
                f"A batch of {self.name} is a {type(batch).__name__} without tensors. "
                "Return tensors from the data set, or make them in Job.collate"
            )
        while True:
            yield batch

    def data_of_run(self, batch_size: int, *, whole: bool = True) -> Any:
        """Data for a training run of that batch: the data set itself, or as much of it as shows what a pass takes.

        The largest samples stand for uneven ones, and samples repeat where there are too few for a batch.
        """
        num_samples = self.num_samples or 0
        num_wanted = batch_size * (NUM_AHEAD if whole else NUM_EVALUATED)
        streamed = isinstance(self.dataset, IterableDataset)
        if self.job.loader is not None or (whole and not self.uneven and num_samples >= num_wanted):
            return self.dataset
        positions = [position for _, position in sorted(self.sizes, reverse=True)[:NUM_LARGEST]]
        if not self.uneven:
            positions = list(self.samples) if streamed else list(range(min(num_samples, num_wanted)))
        return RepeatedSamples(self, positions, num_wanted if whole else min(num_wanted, num_samples or num_wanted))

    def shuffled(self, batch_size: int, num_batches: int, seed: int) -> list[Batch]:
        """Batches drawn at random, as a run draws them: their longest sample, and so their padding, varies."""
        positions, chance = [position for _, position in self.sizes], random.Random(seed)
        drawn = [chance.choices(positions, k=batch_size) for _ in range(num_batches)]
        return [self.collate([self.sample(position) for position in batch]) for batch in drawn]

    def collate(self, samples: list[Any]) -> Batch:
        """These samples as the job joins them."""
        return (self.job.collate or default_collate)(samples)

    def nan_notes(self) -> list[str]:
        """A sentence where samples, or one batch of them, hold NaN or infinity: a run that meets one has no loss."""
        if self.with_nan:
            return [
                f"{len(self.with_nan):,} of {len(self.sizes):,} samples of {self.name} that were looked at hold NaN or "
                f"infinity, the first at index {min(self.with_nan):,}: a run that trains on one loses its weights. "
                "Mend or drop them"
            ]
        own = self.job.loader is not None
        try:
            batch = next(self.batches(self.job.baseline.batch_size if own else NUM_POOLED, "typical"))
        except Exception:  # the question that needs a batch will meet it, and tell at which size
            return []
        maker = "the job's loader" if own else "its collation"
        return [f"A batch of {self.name} holds NaN or infinity. Look at what {maker} makes"] if holds_nan(batch) else []

    def carries_state(self) -> bool:
        """Whether batches say which is the `first`, so that each goes on where the one before ended."""
        if self.job.loader is None:
            return False
        try:
            batch = next(self._own_batches(self.job.baseline.batch_size))
        except Exception:  # the question that needs a batch will meet it
            return False
        return isinstance(batch, Mapping) and "first" in batch

    def epoch_batches(self) -> int | None:
        """Batches of an epoch at the job's own batch size, as its own loader counts them."""
        if self.job.loader is None:
            return None
        try:
            return len(self.job.loader(self.dataset, replace(self.job.baseline, num_workers=0)))  # type: ignore[arg-type]
        except Exception:  # it has no length; or it fails, which the question that needs a batch will meet
            return None

    def _own_batches(self, batch_size: int) -> Iterator[Batch]:
        settings = replace(self.job.baseline, batch_size=batch_size, num_workers=0)
        while True:
            num_seen = 0
            for batch in self.job.loader(self.dataset, settings):  # type: ignore[misc]
                num_seen += 1
                yield batch
            if num_seen == 0:
                raise NoBatch(f"The job's loader gives no batch of {batch_size} from {self.name}")

    def widest(self) -> int | None:
        """The largest batch the job's own loader gives, to within 2 %; None where no limit was met."""
        if self.job.loader is None:
            return None
        works, fails = 1, 2
        deadline = time.monotonic() + SCAN_SECONDS
        while self._gives(fails):
            works, fails = fails, 2 * fails
            if time.monotonic() > deadline or num_bytes(next(self.batches(works, "worst"))) > WIDE_BYTES:
                return None
        while fails - works > max(1.0, 0.02 * works):
            middle = (works + fails) // 2
            works, fails = (middle, fails) if self._gives(middle) else (works, middle)
        return works

    def _gives(self, batch_size: int) -> bool:
        try:
            next(self._own_batches(batch_size))
        except NoBatch:
            return False
        return True

    def _collate(self, batch_size: int, kind: str) -> Batch:
        pool = self._pool(kind)
        return self.collate(list(itertools.islice(itertools.cycle(pool), batch_size)))

    def _pool(self, kind: str) -> list[Any]:
        if kind == "worst" and self.uneven:
            largest = sorted(self.sizes, reverse=True)[:NUM_LARGEST]
            return [self.sample(position) for _, position in largest]
        positions = [position for _, position in self.sizes]
        stride = max(1, len(positions) // NUM_POOLED)
        return [self.sample(position) for position in positions[::stride][:NUM_POOLED]]

    @property
    def uneven(self) -> bool:
        """Whether samples differ in size."""
        return len({size for size, _ in self.sizes}) > 1

    def sample(self, position: int) -> Any:
        """The sample at that position of the scan."""
        return self.samples[position] if position in self.samples else self.dataset[position]

    def _scan(self) -> None:
        """Look at samples, few and for a short time: all of them where `sample_size` can tell without building them."""
        deadline = time.monotonic() + SCAN_SECONDS
        for position, size in self._sizes():
            self.sizes.append((size, position))
            if time.monotonic() > deadline:
                break
        if not self.sizes:
            raise JobRaised(f"{self.name}() gave no sample. legroom needs at least one to train on")

    def _sizes(self) -> Iterator[tuple[int, float]]:
        if isinstance(self.dataset, IterableDataset) or not hasattr(self.dataset, "__getitem__"):
            for position, sample in enumerate(itertools.islice(iter(self.dataset), NUM_POOLED)):
                self.samples[position] = sample
                yield position, self._size(position, sample)
        elif self.job.sample_size is not None:
            for position in range(len(self.dataset)):
                yield position, self.job.sample_size(self.dataset, position)
        else:
            for position in _spread(len(self.dataset), NUM_SCANNED):
                yield position, self._size(position, self._read(position))

    def _size(self, position: int, sample: Any) -> int:
        if holds_nan(sample):
            self.with_nan.append(position)
        return sample_bytes(sample)

    def _read(self, position: int) -> Any:
        started = time.perf_counter()
        try:
            sample = self.dataset[position]
        except Exception as error:
            error.add_note(f"at index {position} of {self.name}")
            raise
        self.read_seconds.append(time.perf_counter() - started)
        return sample


class RepeatedSamples(Dataset[Any]):
    """Some samples of a data set, read from it again and again."""

    def __init__(self, source: BatchSource, positions: Sequence[int], length: int) -> None:
        self.source, self.positions, self.length = source, positions, length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, position: int) -> Any:
        return self.source.sample(self.positions[position % len(self.positions)])

    def __getitems__(self, positions: Sequence[int]) -> list[Any]:
        """A batch at once: beyond the data set, which no run goes, each sample is read once, or that takes minutes."""
        if self.length <= (self.source.num_samples or 0):
            return [self[position] for position in positions]
        read: dict[int, Any] = {}
        places = [position % len(self.positions) for position in positions]
        return [read[place] if place in read else read.setdefault(place, self[place]) for place in places]


def _spread(length: int, count: int) -> list[int]:
    """Up to `count` positions spread evenly over the data, in an order whose every start is a spread too."""
    stride = max(1, length // count)
    positions = list(range(0, length, stride))[:count]
    return [
        positions[i] for step in (8, 4, 2, 1) for i in range(0, len(positions), step) if step == 8 or i % (2 * step)
    ]


def sample_bytes(sample: Any) -> int:
    """Bytes of a sample's tensors; of the tensors its numbers and text will become, where it has none yet.

    >>> sample_bytes({"words": [3, 1, 4], "text": "abc"})
    27
    """
    if isinstance(sample, torch.Tensor):
        return num_bytes(sample)
    if isinstance(sample, Mapping):
        return sum(sample_bytes(value) for value in sample.values())
    if isinstance(sample, list | tuple):
        return sum(sample_bytes(value) for value in sample)
    if isinstance(sample, str | bytes):
        return len(sample)
    return int(getattr(sample, "nbytes", 8))
