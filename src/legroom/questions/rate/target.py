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
from legroom.training.records import Evaluated, Train

SHARE = 0.25
"""Of the budget, that a run by the job's own settings may take."""
NUM_EVALUATIONS = 50
LAST_EVALUATIONS = 9
"""Whose median is what a run came to: a single one may be lucky, and a search would chase that luck."""
CURVES = np.linspace(0.1, 2.0, 39)
"""Exponents c of a + b * steps^-c that are tried for a forecast."""


def find_target(session: Session, question: RateQuestion, description: JobDescription) -> RateQuestion:
    """The question with its target and the length of the job's own run."""
    session.progress("ramp of the rate", 0.02)
    ramp = session.ask(question.ramp(0))
    own = int(description.baseline["num_epochs"]) * _steps_per_epoch(ramp.steps_per_epoch, question, description)
    question = replace(question, own_steps=own)
    if question.target is not None:
        return question
    is_short = own * ramp.seconds / max(1, len(ramp.rates)) <= SHARE * question.budget_seconds
    session.progress("a run by the job's own settings", 0.05)
    run = session.ask(_own_run(question, description, own, None if is_short else SHARE * question.budget_seconds))
    values = [found for found in run.evaluations if _value(found, question) is not None]
    if not values:
        raise NothingMeasured("The job's own settings gave no score or loss that is a number. Name a --target")
    if run.stopped_because == "budget":
        return replace(question, target=_forecast(values, question, own), target_from="forecast")
    last = [value for found in values[-LAST_EVALUATIONS:] if (value := _value(found, question)) is not None]
    return replace(question, target=statistics.median(last), target_from="measured")


def _steps_per_epoch(known: int | None, question: RateQuestion, description: JobDescription) -> int:
    if known is not None:
        return known
    if description.num_samples is None:
        raise UsageError("The length of an epoch is unknown. Give the Job num_samples")
    return max(1, description.num_samples // int(question.settings["batch_size"]))


def _own_run(question: RateQuestion, description: JobDescription, steps: int, max_seconds: float | None) -> Train:
    settings: dict[str, Any] = {**description.baseline, "seed": question.settings["seed"]}
    every = max(1, steps // NUM_EVALUATIONS)
    return Train(device=question.device, settings=settings, evaluate_steps=every, max_seconds=max_seconds)


def _value(found: Evaluated, question: RateQuestion) -> float | None:
    value = found.loss if question.target_name == "loss" else found.score
    return value if value is not None and math.isfinite(value) else None


def _forecast(evaluations: Sequence[Evaluated], question: RateQuestion, num_steps: int) -> float:
    """What the run would come to, by a + b * steps^-c through its evaluations, the later half twice as heavy."""
    steps = np.array([found.step for found in evaluations], float)
    values = np.array([_value(found, question) for found in evaluations], float)
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
