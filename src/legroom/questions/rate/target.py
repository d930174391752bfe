"""The target where nobody named one: what the job's own settings reach, run to the end or forecast."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from legroom.errors import NothingMeasured, UsageError
from legroom.questions.rate.records import RateQuestion
from legroom.requests import JobDescription
from legroom.session import Session
from legroom.training.records import Evaluated, Train, Trained

SHARE = 0.25
"""Of the budget, that a run by the job's own settings may take."""
NUM_EVALUATIONS = 50
LAST_EVALUATIONS = 9
"""Whose median is what a run came to: a single one may be lucky, and a search would chase that luck."""
NUM_RUNS = 3
"""Seeds whose middle is the target, where the share of the budget lasts for them."""
CURVES = np.linspace(0.1, 2.0, 39)
"""Exponents c of a + b * steps^-c that are tried for a forecast."""


def find_target(
    session: Session, question: RateQuestion, description: JobDescription, *, is_named: bool
) -> RateQuestion:
    """The question with its target, where nobody named one, and the length of the job's own run."""
    session.progress("ramp of the rate", 0.02)
    ramp = session.ask(question.ramp(0))
    own = int(description.baseline["num_epochs"]) * _steps_per_epoch(ramp.steps_per_epoch, question, description)
    question = replace(question, own_steps=own)
    if is_named:
        return question
    limit = SHARE * question.budget_seconds
    is_short = own * ramp.seconds / max(1, len(ramp.rates)) <= limit
    steps = round(own * int(question.settings["batch_size"]) / int(description.baseline["batch_size"]))
    runs: list[Trained] = []
    ends: list[float] = []
    spent = 0.0
    while len(ends) < NUM_RUNS and (not ends or spent + spent / len(ends) <= limit):
        session.progress("a run by the job's own settings", 0.05)
        run = session.ask(_own_run(question, description, steps, len(ends), None if is_short else limit))
        if run.stopped_because == "budget":
            return replace(question, target=_forecast(run.evaluations, question, steps), target_from="forecast")
        ends.append(_end(run, question))
        runs.append(run)
        spent += run.seconds
    question = replace(question, target=statistics.median_low(ends), target_from="measured")
    return replace(question, baseline_seconds=statistics.median(_seconds_to(run, question) for run in runs))


def _seconds_to(run: Trained, question: RateQuestion) -> float:
    """Training until the target was first met; all of the run where it was not."""
    met = (found.step for found in run.evaluations if _meets(_value(found, question), question))
    samples = run.num_samples * next(met, run.num_steps) / max(1, run.num_steps)
    return samples / run.samples_per_second if run.samples_per_second else run.seconds


def _meets(value: float | None, question: RateQuestion) -> bool:
    return value is not None and question.signed(value) <= question.wanted


def _end(run: Trained, question: RateQuestion) -> float:
    """What a run came to, its last evaluations together."""
    values = [value for found in run.evaluations if (value := _value(found, question)) is not None]
    if not values:
        raise NothingMeasured("The job's own settings gave no score or loss that is a number. Name a --target")
    return statistics.median_low(values[-LAST_EVALUATIONS:])


def _steps_per_epoch(known: int | None, question: RateQuestion, description: JobDescription) -> int:
    if known is not None:
        return known
    if description.num_samples is None:
        raise UsageError("The length of an epoch is unknown. Give the Job num_samples")
    return max(1, description.num_samples // int(question.settings["batch_size"]))


def _own_run(
    question: RateQuestion, description: JobDescription, steps: int, more: int, max_seconds: float | None
) -> Train:
    settings: dict[str, Any] = {**description.baseline, "seed": int(question.settings["seed"]) + more}
    every = max(1, steps // NUM_EVALUATIONS)
    return Train(device=question.device, settings=settings, evaluate_steps=every, max_seconds=max_seconds)


def _value(found: Evaluated, question: RateQuestion) -> float | None:
    value = found.loss if question.target_name == "loss" else found.score
    return value if value is not None and math.isfinite(value) else None


def _forecast(evaluations: Sequence[Evaluated], question: RateQuestion, num_steps: int) -> float:
    """What the run would come to, by a + b * steps^-c through its evaluations, the later half twice as heavy."""
    known = [(found.step, value) for found in evaluations if (value := _value(found, question)) is not None]
    steps, values = np.array([step for step, _ in known], float), np.array([value for _, value in known], float)
    if len(steps) < 3:
        raise NothingMeasured(
            "The job's own run is too long for the budget, and its beginning too short for a forecast. "
            "Name a --target, or raise --budget"
        )
    weights = np.where(steps >= steps[-1] / 2, 2.0, 1.0)
    fits = [np.polyfit(steps**-power, values, 1, w=weights, full=True) for power in CURVES]
    place = min(range(len(CURVES)), key=lambda each: float(np.sum(fits[each][1])))
    slope, level = fits[place][0]
    return float(level + slope * num_steps ** -CURVES[place])
