"""Planted loader laws: how long preparing, handing over and stepping take, for a FakeMachine to answer with."""

import random
from dataclasses import dataclass, field
from typing import Any, ClassVar

from legroom.questions.loading.records import (
    ColdRead,
    ComparedLoaders,
    CompareLoaders,
    LoaderSettings,
    LoaderThroughput,
    ReadCold,
)
from legroom.requests import Request


@dataclass(kw_only=True)
class FakeLoaders:
    """A device that takes a step at a time, fed by workers that share cores.

    >>> loaders = FakeLoaders(prepare_seconds=0.04, step_seconds=0.01, num_cores=16)
    >>> loaders.batch_seconds(0), loaders.batch_seconds(2), loaders.batch_seconds(8)
    (0.05, 0.02, 0.01)
    """

    ANSWERS: ClassVar[tuple[type[Request[Any]], ...]] = (CompareLoaders, ReadCold)

    prepare_seconds: float = 0.04
    """To prepare a batch on one core."""
    wait_seconds: float = 0.0
    """To prepare a batch beyond that, while no core works: storage, a network."""
    transfer_seconds: float = 0.0
    """To hand a batch over between processes."""
    main_seconds: float = 0.0
    """Of the training process for each batch it takes from workers, beside the step: one batch after another."""
    step_seconds: float = 0.01
    pin_seconds: float = 0.0
    """Core seconds of another thread of the training process for each batch from workers; it delays nothing."""
    launch_seconds: float = 0.0
    """Core seconds of the training process for each step."""
    contention: float = 0.0
    coherence: float = 0.0
    """Cost of each pair of workers."""
    num_cores: int = 16
    storage_seconds: float = 0.0
    """More for a batch whose files are not in the page cache."""
    batch_bytes: int = 2**20
    worker_bytes: int = 2**26
    most_workers: int = 10_000
    """More of them die for want of memory."""
    edge: int = 10_000
    """More workers than that fall off a cliff, which the law that is fitted does not know."""
    fallen_share: float = 0.3
    """Throughput beyond the edge, as a share of that at it."""
    falls_alone: bool = True
    """Whether the loader falls without the step too, or only where the step takes what both need."""
    picklable: bool = True
    ahead_gain: float = 1.0
    """Speed-up by twice the batches ahead."""
    unpinned_gain: float = 1.0
    """Speed-up by memory that is not pinned."""
    noise: float = 0.0
    """Largest relative error of a round."""
    seed: int = 0
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def batch_seconds(self, num_workers: int) -> float:
        """The planted truth: seconds a batch takes with the step."""
        if num_workers == 0:
            return self.prepare_seconds + self.wait_seconds + self.step_seconds
        if num_workers > self.edge:
            return self.batch_seconds(self.edge) / self.fallen_share
        all_cores = (self.prepare_seconds + self.main_seconds + self.launch_seconds) / self.num_cores
        return max(self.load_seconds(num_workers), self.step_seconds + self.main_seconds, all_cores)

    def load_seconds(self, num_workers: int) -> float:
        """Of the loader alone."""
        if num_workers > self.edge and self.falls_alone:
            return self.load_seconds(self.edge) / self.fallen_share
        whole = self.prepare_seconds + self.wait_seconds
        if num_workers == 0:
            return whole
        whole += self.transfer_seconds
        others = num_workers - 1
        by_workers = whole * (1 + self.contention * others + self.coherence * num_workers * others) / num_workers
        return max(by_workers, self.prepare_seconds / self.num_cores, self.main_seconds)

    def answer(self, request: Any) -> tuple[Any, float]:
        """What a child would report, and the seconds that would take."""
        if isinstance(request, ReadCold):
            return self.cold(request), 0.0
        return self.compare(request), request.num_rounds * len(request.lanes) * request.window_seconds

    def compare(self, request: CompareLoaders) -> ComparedLoaders:
        """What a child would report."""
        return ComparedLoaders(lanes=[self._ran(request, settings) for settings in request.lanes])

    def _ran(self, request: CompareLoaders, settings: LoaderSettings) -> LoaderThroughput:
        if settings.num_workers and not self.picklable:
            return LoaderThroughput(lane=settings, outcome="unpicklable", reason="planted: no pickle")
        if settings.num_workers > self.most_workers:
            reason = "planted: a worker died of SIGBUS"
            return LoaderThroughput(lane=settings, outcome="out_of_memory", reason=reason)
        by_kind = {"step": self.step_seconds, "load": self.load_seconds(settings.num_workers)}
        seconds = by_kind.get(request.what, self.batch_seconds(settings.num_workers))
        if settings.prefetch_factor > 2:
            seconds /= self.ahead_gain
        if not settings.pin_memory:
            seconds /= self.unpinned_gain
        taking, pinning = (self.main_seconds, self.pin_seconds) if settings.num_workers else (0.0, 0.0)
        rounds = [seconds * (1 + self._random.uniform(-self.noise, self.noise)) for _ in range(request.num_rounds)]
        return LoaderThroughput(
            lane=settings,
            batch_seconds=rounds,
            median_seconds=sorted(rounds)[len(rounds) // 2],
            spread=(max(rounds) - min(rounds)) / seconds,
            num_batches=10 * request.num_rounds,
            samples_per_batch=request.batch_size,
            batch_bytes=self.batch_bytes,
            main_cpu_seconds=self.launch_seconds if request.what == "step" else taking + pinning,
            main_thread_seconds=taking,
            worker_cpu_seconds=self.prepare_seconds if settings.num_workers else 0.0,
            num_processes=settings.num_workers,
            worker_private_bytes=self.worker_bytes if settings.num_workers else 0,
            worker_resident_bytes=2 * self.worker_bytes if settings.num_workers else 0,
        )

    def cold(self, request: ReadCold) -> ColdRead:
        """What a child would report of cold storage."""
        if not self.storage_seconds:
            return ColdRead(not_measured="planted: no file was read")
        warm = self.batch_seconds(request.lane.num_workers)
        return ColdRead(
            num_files=10,
            num_samples=320,
            warm_batch_seconds=warm,
            cold_batch_seconds=warm + self.storage_seconds,
            bytes_per_sample=1e5,
            bytes_per_second=1e8,
        )
