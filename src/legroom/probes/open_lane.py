"""One loader under measurement: opened, run for a while at each turn, closed; its failures told as what they mean."""

import gc
import multiprocessing
import statistics
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from multiprocessing.connection import wait
from typing import Any

import psutil
import torch
from torch.utils.data import IterableDataset

from legroom.clock import Clock, monotonic
from legroom.errors import JobHung, JobRaised
from legroom.job import Batch
from legroom.probes.bench import Bench
from legroom.probes.lane_failures import (
    explain_death,
    explain_sample,
    explain_start,
    hush_deaths,
    kill_workers,
    reading,
)
from legroom.probes.patience import Patience
from legroom.probes.watched_data import Board, watch
from legroom.probes.worker_memory import worker_memory
from legroom.records import Lane, LaneRate, RaceLoaders, ReadCold
from legroom.training.batch import num_bytes, num_rows, tensors_of
from legroom.training.loader import make_loader

DYING_SECONDS = 2.0
LONGEST_WINDOWS = 4
"""A turn may take this many windows where batches are slow: at least as many batches as there are workers."""
FEWEST_BATCHES = 4
"""Of a turn, unless they take too long: a time of two tells little on a busy machine."""


class OpenLane:
    """A loader with the place it is at. `consume` is called with each batch: the step, or nothing."""

    def __init__(
        self,
        lane: Lane,
        bench: Bench,
        *,
        device: torch.device,
        batch_size: int,
        patience: Patience,
        consume: Any,
        indices: Sequence[int] | None = None,
        clock: Clock = monotonic,
    ) -> None:
        self.lane, self.bench, self.device, self.clock = lane, bench, device, clock
        self.patience, self.consume = patience, consume
        self.board = Board()
        self.loader = self._make_loader(batch_size, indices)
        self.processes: list[Any] = []
        self.seconds: list[float] = []
        self.num_batches = 0
        self.rows: list[int] = []
        self.batch_bytes = 0
        self.waited = self.main_cpu = self.worker_cpu = 0.0
        self.repeats_samples = False
        self.start_seconds = 0.0
        self._batches = self._endless()

    def start(self) -> None:
        """Start the workers and take the first batch."""
        before = set(multiprocessing.active_children())
        started = self.clock()
        self.board.rest()  # until all of them are there: the first ones would take the cores that start the others
        first = self.take()
        self.processes = [child for child in multiprocessing.active_children() if child not in before]
        self.start_seconds = self.clock() - started
        self.batch_bytes = num_bytes(first)
        if isinstance(self.bench.train.dataset, IterableDataset) and len(self.processes) > 1:
            pairs = zip(tensors_of(first), tensors_of(self.take()), strict=False)
            self.repeats_samples = all(torch.equal(one, other) for one, other in pairs)

    def _make_loader(self, batch_size: int, indices: Sequence[int] | None) -> Any:
        job, dataset = self.bench.job, self.bench.train.dataset
        settings = replace(
            job.baseline,
            batch_size=batch_size,
            num_workers=self.lane.num_workers,
            prefetch_factor=self.lane.prefetch_factor,
        )
        return make_loader(
            job,
            dataset if job.loader is not None else watch(dataset, self.board),
            settings,
            train=True,
            device=self.device,
            sampler=indices,
            pin_memory=self.lane.pin_memory,
            blas_threads=self.lane.blas_threads,
        )

    def _endless(self) -> Generator[Batch, None, None]:
        """Epoch after epoch: what a small data set loses at the end of each is part of its rate."""
        while True:
            batch = None
            batches = iter(self.loader)
            self.board.go_on()
            for batch in batches:
                yield batch
            if batch is None:
                raise JobRaised("The loader gave no batch. legroom needs at least one; lower --batch-size")

    def take(self) -> Batch:
        """The next batch, or an error that says who failed where."""
        self.bench.beat("loading")
        try:
            with self.patience(lambda: reading(self.board, self.lane.num_workers)):
                return next(self._batches)
        except JobHung:
            kill_workers()
            raise
        except Exception as error:
            self._explain(error)
            raise

    def rest(self) -> None:
        """Stop the workers until the lane's next turn: others have the cores, and nothing is prepared ahead."""
        if self.processes:
            self.board.rest()

    def window(self, seconds: float, num_batches: int | None) -> None:
        """One turn. It begins in the middle of a long run: where the last one ended."""
        self.board.go_on()
        try:
            self._time_turn(seconds, num_batches)
        finally:
            self.rest()

    def _time_turn(self, seconds: float, num_batches: int | None) -> None:
        for _ in range(self._num_ahead()):
            self.consume(self.take())
        self._finish_device()
        main, workers, started = time.process_time(), self._workers_cpu(), self.clock()
        count, waited = 0, 0.0
        # Workers finish in step with each other: only whole rounds of them are counted.
        round_size = max(1, len(self.processes))
        while not self._is_over(self.clock() - started, seconds, count, round_size, num_batches):
            asked = self.clock()
            batch = self.take()
            waited += self.clock() - asked
            self.rows.append(num_rows(batch))
            self.consume(batch)
            count += 1
        self._finish_device()
        self.seconds.append((self.clock() - started) / count)
        self.num_batches += count
        self.waited += waited
        self.main_cpu += time.process_time() - main
        self.worker_cpu += self._workers_cpu() - workers

    def _num_ahead(self) -> int:
        """Batches prepared ahead that a turn has to use up first.

        In the start there are some; workers of a job's own loader cannot be stopped; and those of a data set that hands
        over whole batches stop after the one they are at.
        """
        if self.bench.job.loader is not None:
            return max(1, len(self.processes) * self.lane.prefetch_factor)
        whole = hasattr(self.bench.train.dataset, "__getitems__")
        return max(1, len(self.processes)) if whole or not self.seconds else 0

    def _is_over(self, elapsed: float, window: float, count: int, round_size: int, wanted: int | None) -> bool:
        if wanted is not None:
            return count >= wanted
        if count >= 2 and elapsed > LONGEST_WINDOWS * window:
            return True
        return elapsed >= window and count >= FEWEST_BATCHES and count % round_size == 0

    def rate(self) -> LaneRate:
        """All turns so far."""
        median, count = statistics.median(self.seconds), self.num_batches
        private, resident = worker_memory([process.pid for process in self.processes])
        return LaneRate(
            lane=self.lane,
            batch_seconds=self.seconds,
            median_seconds=median,
            spread=(max(self.seconds) - min(self.seconds)) / median,
            num_batches=count,
            samples_per_batch=statistics.mean(self.rows),
            batch_bytes=self.batch_bytes,
            wait_seconds=self.waited / count,
            main_cpu_seconds=self.main_cpu / count,
            worker_cpu_seconds=self.worker_cpu / count,
            start_seconds=self.start_seconds,
            num_processes=len(self.processes),
            worker_private_bytes=private,
            worker_resident_bytes=resident,
            repeats_samples=self.repeats_samples,
        )

    def close(self) -> None:
        """End the workers."""
        self.board.go_on()
        self.processes = self._children()
        # Left to the collector, workers would end late, and it looks at all that torch holds: 0.2 s a lane.
        self._batches.close()
        self.loader = None
        if any(process.is_alive() for process in self.processes):  # a loader of the job's own may hold itself
            gc.collect()

    def _workers_cpu(self) -> float:
        times = [psutil.Process(process.pid).cpu_times() for process in self.processes if process.is_alive()]
        return float(sum(time.user + time.system for time in times))

    def _finish_device(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def _explain(self, error: Exception) -> None:
        """Raise what the error means, where that is known."""
        explain_sample(self.board, self.lane.num_workers, error)
        hush_deaths()
        if isinstance(error, EOFError | OSError):  # its pipe closes a moment before a worker is dead
            wait([child.sentinel for child in self._children()], timeout=DYING_SECONDS)
        self.explain_death(error)
        if not self.processes and self.lane.num_workers:
            explain_start(error)

    def explain_death(self, error: Exception) -> None:
        """Raise who died where, if a worker of this lane did."""
        explain_death(self._children(), self.board, self.lane.num_workers, error)

    def _children(self) -> list[Any]:
        """Worker processes; of one that failed at its first batch too."""
        iterator = getattr(self.loader, "_iterator", None)
        return self.processes or list(getattr(iterator, "_workers", []))


def open_lane(
    request: RaceLoaders | ReadCold,
    bench: Bench,
    lane: Lane,
    consume: Callable[[Batch], Any],
    clock: Clock,
    indices: Sequence[int] | None = None,
) -> OpenLane:
    """The lane of a request, not started yet."""
    return OpenLane(
        lane,
        bench,
        device=torch.device(request.device),
        batch_size=request.batch_size,
        patience=Patience(request.patience_seconds),
        consume=consume,
        indices=indices,
        clock=clock,
    )
