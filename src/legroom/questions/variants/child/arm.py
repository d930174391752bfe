"""A model, its optimizer and its step by some settings, timed one turn after another."""

import itertools
import statistics
from collections.abc import Sequence

import torch

from legroom.child.step_timer import StepTimer
from legroom.clock import monotonic
from legroom.job import Batch, Job, Settings
from legroom.training.evaluation import evaluation_mode
from legroom.training.options import apply_options, build_step
from legroom.training.rng import seed_all
from legroom.training.step import autocast

MIN_WARM, MAX_WARM, WARM_SECONDS, SETTLED = 3, 20, 0.4, 1.1
"""Updates before the first turn: so many, until the last three differ by no more than that factor or time is up."""


class Arm:
    """A model, its optimizer and its step by some settings."""

    def __init__(self, job: Job, settings: Settings, batches: Sequence[Batch], timer: StepTimer, device: str) -> None:
        self.settings, self.timer, self.device = settings, timer, torch.device(device)
        seed_all(settings.seed)
        self.job = apply_options(job, settings)
        self.step = build_step(self.job, settings, self.device)
        self.num_passes, self._batches = settings.accumulation_steps, itertools.cycle(batches)
        self.first_seconds = self.step_seconds = 0.0
        self.peak_bytes = 0

    def warm_up(self) -> None:
        """The first update, timed alone; then more until they settle."""
        self.first_seconds = self._time(1)[0]
        times: list[float] = []
        while not _settled(times):
            times += self._time(1)
        self.step_seconds = min(times)

    def turn(self, num_steps: int) -> float:
        """Seconds of an update in the middle of a turn, after one that brings caches back."""
        _reset_peak(self.device)
        found = statistics.median(self._time(num_steps + 1)[1:])
        self.peak_bytes = max(self.peak_bytes, _peak(self.device))
        return found

    def evaluate(self, batches: Sequence[Batch]) -> float:
        """Seconds of the loss without gradients; 0 for a job with its own step."""
        loss = self.job.loss
        if loss is None:
            return 0.0
        started = monotonic()
        with torch.no_grad(), evaluation_mode(self.step.model):
            for batch in batches:
                with autocast(self.device, self.settings.precision):
                    loss(self.step.model, batch)
        self.timer.wait()
        return monotonic() - started

    def _time(self, num_steps: int) -> list[float]:
        return self.timer.time(lambda: self.step([next(self._batches) for _ in range(self.num_passes)]), num_steps)


def _settled(times: list[float]) -> bool:
    if len(times) >= MAX_WARM or (len(times) > 1 and sum(times) > WARM_SECONDS):
        return True
    return len(times) >= MIN_WARM and max(times[-MIN_WARM:]) <= SETTLED * min(times[-MIN_WARM:])


def _reset_peak(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()


def _peak(device: torch.device) -> int:
    return torch.cuda.max_memory_allocated() if device.type == "cuda" else 0
