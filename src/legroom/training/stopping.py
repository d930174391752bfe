"""Judges a run by its evaluations: whether it has reached its target, stopped gaining, or is at its best."""

import math
from typing import Literal

from legroom.errors import UsageError
from legroom.job import Job
from legroom.laws.stopping import num_without_gain, reaches
from legroom.training.records import Evaluated, Train


class Judge:
    """The evaluations of a run and what they mean for it."""

    def __init__(self, job: Job, request: Train, *, can_evaluate: bool) -> None:
        self.request = request
        self.goal = job.score.goal if job.score else None
        self.evaluations: list[Evaluated] = []
        _refuse_what_cannot_be_judged(job, request, can_evaluate)

    def verdict(self) -> Literal["target", "patience"] | None:
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

    def best_now(self) -> tuple[str, float] | None:
        """What the last evaluation gave, if none before was as good; by score where the job has one."""
        name = "score" if self.goal else "loss"
        values = [getattr(found, name) for found in self.evaluations]
        known = [value for value in values if value is not None]
        if not values or values[-1] is None:
            return None
        best = max(known) if self._goal_of(name) == "max" else min(known)
        return (name, best) if known.index(best) == len(known) - 1 else None

    def _num_without_gain(self) -> int:
        name = self.request.watch
        goal = self._goal_of(name)
        worst = -math.inf if goal == "max" else math.inf
        values = [getattr(found, name) for found in self.evaluations]
        known = [worst if value is None else value for value in values]
        return num_without_gain(known, goal=goal, tolerance=self.request.tolerance)

    def _goal_of(self, name: str) -> str:
        return "min" if name == "loss" else self.goal or "max"


def _refuse_what_cannot_be_judged(job: Job, request: Train, can_evaluate: bool) -> None:
    name = request.target[0] if request.target else request.watch if request.patience is not None else None
    if name is None:
        return
    if not can_evaluate:
        raise UsageError("A target or patience needs validation data, and this job has none. Give it valid_data")
    if name == "score" and job.score is None:
        raise UsageError("The job has no score; aim at the loss instead, as in --target loss=0.1, or give it one")
    if name == "loss" and job.loss is None:
        raise UsageError("The job has its own step and no loss to judge by; aim at the score")
