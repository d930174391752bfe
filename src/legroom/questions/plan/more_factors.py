"""Factors beside those of the forecast: of the job's own run, and of how busy the device is."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from legroom.questions.plan.candidates import Candidate
from legroom.questions.plan.forecast import Forecast
from legroom.questions.plan.records import PlanQuestion


def more_factors(question: PlanQuestion, found: Forecast, kept_seconds: float | None) -> dict[str, Any]:
    """What forecasts for other cards need.

    kept_seconds: of the job's own run with what pays for it, where it stays.
    """
    own, points = found.baseline.candidate, question.speed.points if question.speed else []
    return {
        "busy": busy_at(points, found.chosen.batch_size),
        "own": _own(own, kept_seconds or own.seconds) if own else None,
    }


def _own(own: Candidate, seconds: float) -> dict[str, Any]:
    """The run of the job's own settings, that takes so long."""
    evaluating = own.num_evaluations * own.evaluation
    return {
        "batch_size": own.batch_size,
        "num_passes": own.num_passes,
        "num_steps": own.num_steps,
        "step_seconds": (seconds - evaluating) / own.num_steps,
        "num_evaluations": own.num_evaluations,
        "evaluation": own.evaluation,
    }


def busy_at(points: Sequence[Mapping[str, Any]], batch_size: int) -> float | None:
    """Share of a pass in which the device works, by the size timed nearest; None where it has no clock of its own."""
    known = [point for point in points if point.get("device_seconds")]
    if not known:
        return None
    near = min(known, key=lambda point: abs(math.log(point["batch_size"] / batch_size)))
    return min(1.0, float(near["device_seconds"]) / float(near["median_seconds"]))
