"""When a run has gone on long enough: its evaluations, and what they and its length mean for it."""

import math
from collections.abc import Sequence
from typing import Literal

from legroom.errors import UsageError
from legroom.job import Job, RunLength
from legroom.training.progress import Progress
from legroom.training.records import Evaluated, Reason, Train


class Stopping:
    """The evaluations of a run and whether it should end."""

    def __init__(self, job: Job, request: Train, *, can_evaluate: bool) -> None:
        _refuse_what_cannot_be_reached(job, request, can_evaluate)
        self.request = request
        self.goal = job.score.goal if job.score else None
        self.evaluations: list[Evaluated] = []

    def reason(self, at: Progress, length: RunLength) -> Reason | None:
        """Why a run of that length should end now, if it should; a target reached with the last update counts."""
        verdict = self._verdict()
        if verdict == "target":
            return "target"
        if at.step == length.num_steps or (length.num_steps is None and at.epoch >= length.num_epochs):
            return "finished"
        if verdict is not None:
            return verdict
        is_spent = self.request.max_seconds is not None and at.seconds >= self.request.max_seconds
        return "budget" if is_spent else None

    def best_now(self) -> tuple[str, float] | None:
        """What the last evaluation gave, if none before was as good; by score where the job has one."""
        name = "score" if self.goal else "loss"
        values = [getattr(found, name) for found in self.evaluations]
        known = [value for value in values if value is not None]
        if not values or values[-1] is None:
            return None
        best = max(known) if self._goal_of(name) == "max" else min(known)
        return (name, best) if known.index(best) == len(known) - 1 else None

    def _verdict(self) -> Literal["target", "patience"] | None:
        """Why the evaluations end the run, if they do."""
        if not self.evaluations:
            return None
        request = self.request
        if request.target is not None:
            name, value = request.target
            if reaches(getattr(self.evaluations[-1], name), value, goal=self._goal_of(name)):
                return "target"
        if request.patience is not None and self._num_without_gain() >= request.patience:
            return "patience"
        return None

    def _num_without_gain(self) -> int:
        name = self.request.watch
        goal = self._goal_of(name)
        worst = -math.inf if goal == "max" else math.inf
        values = [getattr(found, name) for found in self.evaluations]
        known = [worst if value is None else value for value in values]
        return num_without_gain(known, goal=goal, tolerance=self.request.tolerance)

    def _goal_of(self, name: str) -> str:
        return "min" if name == "loss" else self.goal or "max"


def _refuse_what_cannot_be_reached(job: Job, request: Train, can_evaluate: bool) -> None:
    name = request.target[0] if request.target else request.watch if request.patience is not None else None
    if name is None:
        return
    if not can_evaluate:
        raise UsageError("A target or patience needs validation data, and this job has none. Give it valid_data")
    if name == "score" and job.score is None:
        raise UsageError("The job has no score; aim at the loss instead, as in --target loss=0.1, or give it one")
    if name == "loss" and job.loss is None:
        raise UsageError("The job has its own step and no loss to judge by; aim at the score")


def num_without_gain(values: Sequence[float], *, goal: str, tolerance: float = 0.0) -> int:
    """Evaluations since the last that gained on the best before it by more than `tolerance` of that best.

    >>> num_without_gain([3.0, 2.0, 2.1, 2.2], goal="min")
    2
    >>> num_without_gain([1.0, 0.999, 0.998], goal="min", tolerance=0.01)
    2
    """
    sign = 1.0 if goal == "max" else -1.0
    best, waited = float("-inf"), 0
    for value in values:
        if sign * value > best + tolerance * abs(best if best > float("-inf") else 0.0):
            best, waited = sign * value, 0
        else:
            waited += 1
    return waited


def first_near_minimum(losses: Sequence[float], *, within: float = 0.01) -> int | None:
    """Position of the first loss within that share of the smallest: where Hestness et al. call a model trained.

    >>> first_near_minimum([4.0, 2.01, 2.0, 2.3])
    1
    """
    if not losses:
        return None
    limit = min(losses) + within * abs(min(losses))
    return next(position for position, loss in enumerate(losses) if loss <= limit)


def reaches(value: float | None, target: float, *, goal: str) -> bool:
    """Whether the value is as good as the target.

    >>> reaches(0.98, 0.97, goal="max"), reaches(120.5, 120.0, goal="min"), reaches(None, 1.0, goal="min")
    (True, False, False)
    """
    return value is not None and (value >= target if goal == "max" else value <= target)
