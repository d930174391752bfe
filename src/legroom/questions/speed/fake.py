"""Steps whose time obeys a planted law."""

import math
import random
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from legroom.questions.speed.records import DeviceLoad, MeasurePadding, PaddingSeen, StepTime, StepTimes, TimeSteps
from legroom.requests import DeviceSpeed, MeasureDevice, Request

LONGEST_VISIT, LEAST_STEPS = 0.5, 4
"""Seconds that a fresh process stays at one size at most, and the fewest steps of a size that anybody times."""


class FakeSteps:
    """Answers of a machine about the time of steps.

    >>> steps = FakeSteps(seconds=lambda batch_size: max(0.01, 0.001 * batch_size))
    >>> steps.time(TimeSteps(device="cpu", batch_sizes=(1, 64))).points[1].samples_per_second
    1000.0
    """

    ANSWERS: ClassVar[tuple[type[Request[Any]], ...]] = (TimeSteps, MeasurePadding, MeasureDevice)

    def __init__(
        self,
        *,
        seconds: Callable[[int], float] = lambda batch_size: 0.01 + 0.0002 * batch_size,
        utilisation: Callable[[int], float] | None = None,
        bytes_per_sample: float = 1e6,
        available_bytes: float = 8e9,
        flops_per_sample: float = 1e6,
        noise: float = 0.0,
        host_seconds: float = 0.0,
        host_noise: float = 0.0,
        fetching_seconds: Callable[[int], float] = lambda batch_size: 0.0,
        process_noise: float = 0.0,
        after_larger: float = 1.0,
        setting_factors: Mapping[str, float] | None = None,
        seed: int = 0,
    ) -> None:
        self.seconds, self.utilisation = seconds, utilisation
        self.bytes_per_sample, self.available_bytes = bytes_per_sample, available_bytes
        self.flops_per_sample, self.noise = flops_per_sample, noise
        """noise: standard deviation of a median, as a share of it."""
        self.host_seconds, self.host_noise = host_seconds, host_noise
        """host_seconds: to launch a step, as on a GPU, and the noise of that; 0: one clock only, as on a CPU."""
        self.fetching_seconds = fetching_seconds
        """For memory that every step frees and fetches anew, unless its process keeps it."""
        self.process_noise = process_noise
        """Standard deviation from process to process, as a share; one process repeats itself."""
        self.after_larger = after_larger
        """What a size takes in a process that has run a larger one, as a share."""
        self.setting_factors = setting_factors or {}
        """What a step takes with a variable of the environment or an option of the step, as a share, by its name."""
        self._largest, self._pace = 0, 1.0
        self._random = random.Random(seed)

    def start(self) -> None:
        """A new process: it has run no size yet, and has a pace of its own."""
        self._largest, self._pace = 0, self._random.lognormvariate(0, self.process_noise)

    def answer(self, request: Any) -> tuple[Any, float]:
        """What a child would report, and the seconds that would take."""
        match request:
            case TimeSteps():
                visits = LONGEST_VISIT * len(request.batch_sizes) if request.run else request.seconds
                least = LEAST_STEPS * sum(map(self.seconds, request.batch_sizes))
                return self.time(request), max(min(request.seconds, visits), least)
            case MeasurePadding():
                return self.pad(request), 0.0
        planted = {"matmul_fp32_flops_per_second": 1e12, "copy_bytes_per_second": 1e11}
        return DeviceSpeed(values={name: {"median": value, "spread": 0.0} for name, value in planted.items()}), 0.0

    def time(self, request: TimeSteps) -> StepTimes:
        """The planted seconds; a size that needs more than there is runs out of memory."""
        not_measured = [] if self.utilisation else ["device utilisation and power: NVML did not answer (planted)"]
        return StepTimes(
            points=[self._point(size, request) for size in request.batch_sizes],
            flops_per_sample=self.flops_per_sample if request.close else 0.0,
            not_measured=not_measured if request.close else [],
        )

    def pad(self, request: MeasurePadding) -> PaddingSeen:
        """Half of a random batch is padding; batches of like length hold hardly any."""
        num_bytes = 100 * request.batch_size
        return PaddingSeen(
            num_samples=request.batch_size,
            sample_bytes=num_bytes,
            shuffled_bytes=2 * num_bytes,
            bucketed_bytes=int(1.1 * num_bytes),
            budget_bytes=int(1.05 * num_bytes),
        )

    def _point(self, size: int, request: TimeSteps) -> StepTime:
        if size * self.bytes_per_sample > self.available_bytes:
            return StepTime(batch_size=size, outcome="out_of_memory")
        fetching = 0.0 if request.keeps_memory else self.fetching_seconds(size)
        work = (
            (self.seconds(size) + fetching) * self._random.lognormvariate(0, self.noise) * self._factor(size, request)
        )
        self._largest = max(self._largest, size)
        seconds = max(work, self._launching()) if self.host_seconds else work
        return StepTime(
            batch_size=size,
            median_seconds=seconds,
            device_seconds=work if self.host_seconds else 0.0,
            host_seconds=self._launching() if self.host_seconds else 0.0,
            interval=(seconds * (1 - self.noise), seconds * (1 + self.noise)),
            system_share=fetching / (self.seconds(size) + fetching),
            num_rounds=5,
            num_repeats=25,
            peak_bytes=int(size * self.bytes_per_sample),
            available_bytes=int(self.available_bytes),
            load=DeviceLoad(utilisation=self.utilisation(size)) if self.utilisation else DeviceLoad(),
        )

    def _factor(self, size: int, request: TimeSteps) -> float:
        names = [*request.environment, *(name for name, is_set in request.options.items() if is_set)]
        settings = [self.setting_factors.get(name, 1.0) for name in names]
        return self._pace * math.prod(settings) * (self.after_larger if size < self._largest else 1.0)

    def _launching(self) -> float:
        return self.host_seconds * self._random.lognormvariate(0, self.host_noise)
