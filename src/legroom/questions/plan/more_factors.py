"""Factors beside those of the forecast: of the job's own run, of other targets, and of how busy the device is."""

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from legroom.questions.plan.candidates import Candidate
from legroom.questions.plan.forecast import Forecast
from legroom.questions.plan.records import PlanQuestion
from legroom.questions.rate.answer import RateAnswer

Points = Sequence[tuple[float, float]]
"""Updates of a run, and the value that it comes to."""


def more_factors(question: PlanQuestion, found: Forecast, kept_seconds: float | None) -> dict[str, Any]:
    """What the page's target and forecasts for other cards need.

    kept_seconds: of the job's own run with what pays for it, where it stays.
    """
    own, points = found.baseline.candidate, question.speed.points if question.speed else []
    return {
        "curve": learning_curve(found.learned.near(found.chosen.size)),
        "busy": busy_at(points, found.chosen.batch_size),
        "flops_per_sample": question.speed.flops_per_sample if question.speed else None,
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


def learning_curve(answer: RateAnswer) -> dict[str, list[float]]:
    """Updates after which a run at the rate that was found has each value, in the middle of its seeds.

    Values improve from one to the next; those that fewer than half of the seeds came to are left out.
    """
    seen = [_points(curve) for curve in answer.curves if curve.get("learning_rate") == answer.learning_rate]
    sign = -1.0 if sum(points[-1][1] - points[0][1] for points in seen if points) < 0 else 1.0
    curves = [_best_so_far(points, sign) for points in seen if len(points) > 1]
    found: dict[float, float] = {}
    for value in sorted({value for curve in curves for _, value in curve}, key=lambda value: sign * value):
        updates = statistics.median(_updates(curve, value, sign) for curve in curves)
        if math.isfinite(updates):
            found[value] = max([updates, *found.values()])
    return {"values": list(found), "updates": list(found.values())}


def _points(curve: Mapping[str, Any]) -> Points:
    return [(s, v) for s, v in zip(curve["num_steps"], curve["value"], strict=True) if v is not None]


def _best_so_far(points: Points, sign: float) -> Points:
    """Those that are better than all before them; sign: 1 where more is better, -1 where less is."""
    best = itertools.accumulate((sign * value for _, value in points), max)
    before = itertools.chain([-math.inf], itertools.accumulate((sign * value for _, value in points), max))
    return [point for point, now, then in zip(points, best, before, strict=False) if now > then]


def _updates(curve: Points, value: float, sign: float) -> float:
    """Updates to the value by lines in ln updates; infinite where it is beyond the curve."""
    if sign * value <= sign * curve[0][1]:
        return curve[0][0]
    for (early, worse), (late, better) in itertools.pairwise(curve):
        if sign * value <= sign * better:
            return float(early * (late / early) ** ((value - worse) / (better - worse)))
    return math.inf
