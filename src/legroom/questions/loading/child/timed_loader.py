"""One loader in one comparison: its turns, timed, and the throughput they come to."""

import math
import statistics
import time
from collections.abc import Callable
from typing import Any

from legroom.job import Batch
from legroom.questions.loading.child.failures import workers_cpu
from legroom.questions.loading.child.open_loader import OpenLoader
from legroom.questions.loading.child.room import worker_memory
from legroom.questions.loading.child.step_alone import finish
from legroom.questions.loading.records import LoaderThroughput
from legroom.training.data.batch import num_rows

LONGEST_WINDOWS = 4
"""A turn may take this many windows where batches are slow: at least as many batches as there are workers."""
SHORT_EPOCHS = 2
"""An epoch of up to so many windows is counted whole: workers idle at its end, so a turn with an end is slower."""
FEWEST_BATCHES = 4
"""Of a turn, unless they take too long: a time of two tells little on a busy machine."""


class TimedLoader:
    """Nothing of the comparisons before counts. `consume` is called with each batch: the step, or nothing."""

    def __init__(self, loader: OpenLoader, consume: Callable[[Batch], Any]) -> None:
        self.loader, self.consume, self.clock = loader, consume, loader.clock
        self.seconds: list[float] = []
        """Of a batch, one value a turn."""
        self.num_batches = 0
        self.has_finite_loss = True
        self.rows: list[int] = []
        self.waited = self.main_cpu = self.main_thread = self.worker_cpu = self.turn_seconds = 0.0

    def window(self, seconds: float, num_batches: int | None) -> None:
        """One turn. It begins in the middle of a long run: where the last one ended."""
        began = self.clock()
        self.loader.board.go_on()
        try:
            for _ in range(self.loader.num_ahead()):
                self.consume(self.loader.take())
            self._time_turn(seconds, num_batches)
        finally:
            self.loader.rest()
            self.turn_seconds += self.clock() - began

    def _time_turn(self, seconds: float, num_batches: int | None) -> None:
        finish(self.loader.device)
        main, thread, workers = time.process_time(), time.thread_time(), workers_cpu(self.loader.processes)
        started = self.clock()
        count, waited, loss = 0, 0.0, None
        while not self._is_over(self.clock() - started, seconds, count, num_batches):
            asked = self.clock()
            batch = self.loader.take()
            waited += self.clock() - asked
            self.rows.append(num_rows(batch))
            loss = self.consume(batch)
            count += 1
        finish(self.loader.device)
        self.has_finite_loss &= loss is None or math.isfinite(float(loss))
        self.loader.has_run = True
        self.seconds.append((self.clock() - started) / count)
        self.num_batches += count
        self.waited += waited
        self.main_cpu += time.process_time() - main
        self.main_thread += time.thread_time() - thread
        # Those that ended take theirs with them.
        self.worker_cpu += max(0.0, workers_cpu(self.loader.processes) - workers)

    def _is_over(self, elapsed: float, window: float, count: int, wanted: int | None) -> bool:
        if wanted is not None:
            return count >= wanted
        if count >= 2 and elapsed > LONGEST_WINDOWS * window:
            return True
        if elapsed < window or count < FEWEST_BATCHES:
            return False
        epoch = self.loader.epoch_batches
        is_short = 0 < epoch * elapsed <= SHORT_EPOCHS * window * count
        # Workers finish in step with each other: only whole rounds of them are counted.
        return count % (epoch if is_short else max(1, len(self.loader.processes))) == 0

    def throughput(self) -> LoaderThroughput:
        """All turns so far."""
        loader, median, count = self.loader, statistics.median(self.seconds), self.num_batches
        private, resident = worker_memory([process.pid for process in loader.processes])
        loader.built.worker_bytes = max(loader.built.worker_bytes, private)
        return LoaderThroughput(
            lane=loader.settings,
            batch_seconds=self.seconds,
            median_seconds=median,
            spread=(max(self.seconds) - min(self.seconds)) / median,
            num_batches=count,
            has_finite_loss=self.has_finite_loss,
            samples_per_batch=statistics.mean(self.rows),
            batch_bytes=loader.batch_bytes,
            wait_seconds=self.waited / count,
            main_cpu_seconds=self.main_cpu / count,
            main_thread_seconds=self.main_thread / count,
            worker_cpu_seconds=self.worker_cpu / count,
            start_seconds=loader.start_seconds,
            turn_seconds=self.turn_seconds,
            num_processes=len(loader.processes),
            worker_private_bytes=private,
            worker_resident_bytes=resident,
            repeats_samples=loader.repeats_samples,
        )
