"""One batch size whose steps are timed, visit after visit; its batches already lie on the device."""

import itertools
import math
import os
import statistics
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Literal

import torch

from legroom.child.batches import NoBatch
from legroom.child.built_job import BuiltJob
from legroom.child.cuda_clocks import Held
from legroom.child.meters import HostMeter
from legroom.child.step_timer import StepTimer
from legroom.host.limits import read_limits
from legroom.job import Batch
from legroom.laws.intervals import median_interval
from legroom.questions.speed.records import DeviceLoad, StepTime, TimeSteps
from legroom.questions.speed.step_law import HIDDEN
from legroom.training.data.batch import move
from legroom.training.step import TrainingStep, Watch

VISIT_SECONDS = 0.1
"""A visit is long against a turn of the scheduler, which on shared cores is 16 ms."""
MAX_STEPS = 50
RUN_VISIT_SECONDS = (0.1, 0.5)
"""Shortest and longest visit of a fresh process, which sees each size once."""
HOST_VISIT_SECONDS, HOST_MAX_STEPS = 0.3, 150
"""A visit where steps wait for the host: its pace varies where a card's does not."""
NUM_TRIES = 2
"""Steps held at a size before it counts as one whose clocks cannot be told apart."""
MIN_WARM, MAX_WARM, WARM_SECONDS = 3, 30, 0.5
SETTLED = 1.1
"""Warm-up ends when the last three steps differ by no more than this factor."""
NUM_UNEVEN = 4
"""Batches of each size where samples differ in length."""
TOO_MUCH = (torch.OutOfMemoryError, MemoryError)


class Subject:
    """One batch size, visited again and again."""

    def __init__(self, batch_size: int, request: TimeSteps, built: BuiltJob, timer: StepTimer) -> None:
        self.batch_size, self.request, self.built, self.timer = batch_size, request, built, timer
        self.device = torch.device(request.device)
        self.step = self.make_step(lambda phase: None)
        self.outcome: Literal["measured", "out_of_memory", "no_batch"] = "measured"
        self.step_seconds = 0.0
        self.core_seconds = self.system_seconds = self.wall_seconds = 0.0
        self.num_repeats = self.peak_bytes = self.available_bytes = 0
        self.has_finite_loss = True
        self.held: list[Held] = []
        self._batches: list[Batch] = []

    def make_step(self, watch: Watch) -> TrainingStep:
        """The step that the request asks for."""
        return self.built.training_step(self.device, self.request.precision, watch, self.request.options)

    def visit(self) -> float:
        """Seconds of a step, by as many as fill a visit; the first visit warms up.

        A fresh process counts all of them, as a plain loop does: slow moments fall between short steps and into long
        ones, so that medians of steps would favour small sizes. In rounds the median over visits leaves them out alike.
        """
        try:
            placed = self.place()
            memory = HostMeter() if self.device.type == "cpu" else None
            self._start_memory(memory)
            self._warm_up(placed)
            seconds = self._timed(placed, self._num_steps())
            self._hold(placed)
            self._read_memory(memory)
        except (*TOO_MUCH, NoBatch) as error:
            self.outcome = "no_batch" if isinstance(error, NoBatch) else "out_of_memory"
            self._give_memory_back()
            raise
        self.built.beat(f"batch of {self.batch_size}")
        return statistics.fmean(seconds) if self.request.run else statistics.median(seconds)

    def place(self) -> "itertools.cycle[Batch]":
        """The batches, on the device; between visits they wait on the host, so that only one size takes room there."""
        if not self._batches:
            self._batches = self._make()
        return itertools.cycle([move(batch, self.device) for batch in self._batches])

    def _make(self) -> list[Batch]:
        source = self.built.train
        if source.uneven:
            return source.shuffled(self.batch_size, NUM_UNEVEN, self.request.seed)
        return [next(source.batches(self.batch_size, "typical"))]

    def _warm_up(self, placed: "itertools.cycle[Batch]") -> None:
        """Steps until they settle; on later visits one, since another size ran in between."""
        num_least = 1 if self.step_seconds else MIN_WARM
        times: list[float] = []
        while not (len(times) == num_least == 1 or _settled(times)):
            times += self.timer.time(lambda: self.step([next(placed)]), 1)
            self.built.beat("warm-up")
        self.step_seconds = min(times)

    def _hold(self, placed: "itertools.cycle[Batch]") -> None:
        """Both clocks, by one step; not again where the first ones told nothing."""
        if len(self.held) >= NUM_TRIES and not self._host_seconds:
            return

        def watched(watch: Watch) -> Callable[[], Any]:
            step = self.make_step(watch)
            return lambda: step([next(placed)])

        try:
            self.held.append(self.timer.both_clocks(watched, self.step_seconds))
        except TOO_MUCH:  # the steps themselves ran
            self.held.append(Held())
            self.built.model.zero_grad(set_to_none=True)

    def _num_steps(self) -> int:
        """As many as fill a visit; more where the host sets the pace."""
        if self.request.run:
            least, most = RUN_VISIT_SECONDS
            visit = min(most, max(least, self.request.seconds / len(self.request.batch_sizes)))
            return max(1 if self.step_seconds > most else 2, math.ceil(visit / self.step_seconds))
        host_bound = 0 < HIDDEN * self._device_seconds < self.step_seconds
        seconds, most = (HOST_VISIT_SECONDS, HOST_MAX_STEPS) if host_bound else (VISIT_SECONDS, MAX_STEPS)
        return max(1, min(most, math.ceil(seconds / self.step_seconds)))

    @property
    def _host_seconds(self) -> float:
        return _median_known([held.host_seconds for held in self.held])

    @property
    def _device_seconds(self) -> float:
        return _median_known([held.device_seconds for held in self.held])

    def _timed(self, placed: "itertools.cycle[Batch]", num_steps: int) -> list[float]:
        cores, system, wall = time.process_time(), os.times().system, time.perf_counter()
        losses: deque[torch.Tensor] = deque(maxlen=1)
        seconds = self.timer.time(lambda: losses.append(self.step([next(placed)])), num_steps)
        self.core_seconds += time.process_time() - cores
        self.system_seconds += os.times().system - system
        self.wall_seconds += time.perf_counter() - wall
        self.num_repeats += num_steps
        self.has_finite_loss = all(math.isfinite(float(loss)) for loss in losses)  # the timer has waited
        self.step_seconds = statistics.median(seconds)
        return seconds

    def _start_memory(self, host: HostMeter | None) -> None:
        if host is not None:
            host.take_peak()
        elif self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()

    def _read_memory(self, host: HostMeter | None) -> None:
        if host is not None:
            self.peak_bytes = max(self.peak_bytes, host.take_peak())
            self.available_bytes = read_limits().available_bytes + self.peak_bytes
        elif self.device.type == "cuda":
            self.peak_bytes = max(self.peak_bytes, torch.cuda.max_memory_allocated())
            self.available_bytes = torch.cuda.mem_get_info()[0] + torch.cuda.memory_reserved()

    def _give_memory_back(self) -> None:
        self.built.model.zero_grad(set_to_none=True)
        self._batches = []
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def summary(self, values: list[float]) -> StepTime:
        """What the visits gave."""
        if not values:
            return StepTime(batch_size=self.batch_size, outcome=self.outcome)
        return StepTime(
            batch_size=self.batch_size,
            median_seconds=statistics.median(values),
            interval=median_interval(values),
            device_seconds=self._device_seconds,
            host_seconds=self._host_seconds,
            num_rounds=len(values),
            num_repeats=self.num_repeats,
            peak_bytes=self.peak_bytes,
            available_bytes=self.available_bytes,
            system_share=self._system_share(),
            has_finite_loss=self.has_finite_loss,
            load=self._host_load(),
        )

    def _system_share(self) -> float:
        is_host = self.device.type == "cpu" and self.core_seconds > 0
        return min(1.0, self.system_seconds / self.core_seconds) if is_host else 0.0

    def _host_load(self) -> DeviceLoad:
        """On a CPU the process's own core time, whatever other processes do."""
        if self.device.type != "cpu":
            return DeviceLoad()
        share = self.core_seconds / (self.wall_seconds * read_limits().num_cores)
        return DeviceLoad(utilisation=min(1.0, share), num_readings=self.num_repeats)


def _median_known(values: list[float]) -> float:
    """The median of those that are not 0; 0 where there is none."""
    known = [value for value in values if value]
    return statistics.median(known) if known else 0.0


def _settled(times: list[float]) -> bool:
    if len(times) >= MAX_WARM or (len(times) > 1 and sum(times) > WARM_SECONDS):
        return True
    return len(times) >= MIN_WARM and max(times[-MIN_WARM:]) <= SETTLED * min(times[-MIN_WARM:])
