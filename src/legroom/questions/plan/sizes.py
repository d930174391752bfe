"""Model sizes in a plan: each is planned for the same target, and the one that is surely there sooner is taken."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from legroom.errors import UsageError
from legroom.laws.time_to_target import joined_spread
from legroom.questions.base import Recommendation, check_word
from legroom.questions.plan.answer import PlanAnswer
from legroom.questions.plan.records import SizedPlan
from legroom.reports.numbers import quantity
from legroom.units import format_seconds

DIMENSIONS = ("width", "depth")
EVIDENCE = ["sizes_counted", "grown", "trained"]


def read_sizes(text: str) -> tuple[str, list[int]]:
    """What varies, and its values.

    >>> read_sizes("width=64, 32")
    ('width', [32, 64])
    """
    name, _, rest = text.partition("=")
    check_word("size", name.strip(), DIMENSIONS)
    words = [word.strip() for word in rest.split(",")]
    if not all(word.isdecimal() and int(word) for word in words):
        raise UsageError(f"--model-sizes {text} cannot be read. Write {name}=32,64,128: whole numbers above 0")
    return name.strip(), sorted({int(word) for word in words})


def with_sizes(own: PlanAnswer, sizes: Sequence[SizedPlan]) -> PlanAnswer:
    """The plan of the size that costs least, where that is surely less than the job's own size does; else the own."""
    rows = [_row(one) for one in sizes]
    sooner = [one for one in sizes if one.plan is not None and is_surely_less(one.plan, own)]
    told = [_told(one) for one in sizes]
    own = _with_cost_of(own, [one for one in sizes if one.plan])
    if not sooner:
        stays = ["The job's own model size stays: no other is surely sooner at the target"] if sizes else []
        return replace(own, notes=[*own.notes, *stays, *told], sizes=rows)
    won = min(sooner, key=lambda one: cost(one.plan))  # type: ignore[arg-type]
    assert won.plan is not None
    return replace(
        won.plan,
        job=own.job,
        seconds=own.seconds,
        cost_seconds=own.cost_seconds,
        baseline=own.baseline,
        baseline_seconds=own.baseline_seconds,
        baseline_from=own.baseline_from,
        kept=False,
        factors={**won.plan.factors, "baseline_seconds": own.baseline_seconds},
        spent=own.spent,
        found=own.found,
        before=own.before,
        notes=[*won.plan.notes, *told],
        recommendations=[_size_item(won, own), *(item for item in won.plan.recommendations if not _is_size(item))],
        shown_code=own.shown_code,
        plan_path=own.plan_path,
        sizes=rows,
    )


def _with_cost_of(own: PlanAnswer, sizes: Sequence[SizedPlan]) -> PlanAnswer:
    """The plan of the job's own size, which took the plans of all others too."""
    seconds = {one.model_size: one.plan.seconds for one in sizes if one.plan}
    costs = [one.plan.cost_seconds or one.plan.seconds for one in sizes if one.plan]
    return replace(
        own,
        seconds=own.seconds + sum(seconds.values()),
        spent={**own.spent, **seconds},
        cost_seconds=own.cost_seconds + sum(costs),
    )


def is_surely_less(plan: PlanAnswer, own: PlanAnswer) -> bool:
    """Whether it costs less than the plan at the job's own size, by more than both may be off."""
    if plan.predicted_seconds is None:
        return False
    if own.predicted_seconds is None:
        return True
    return cost(plan) * joined_spread(_spread(plan), _spread(own)) < cost(own)


def cost(plan: PlanAnswer) -> float:
    """What is to be least: seconds, or the hours that are paid for."""
    seconds = math.inf if plan.predicted_seconds is None else plan.predicted_seconds
    if plan.goal != "cheapest":
        return seconds
    return seconds * plan.num_devices if plan.predicted_cost is None else plan.predicted_cost


def _spread(plan: PlanAnswer) -> float:
    low, high = plan.predicted_range or (1.0, 1.0)
    return math.sqrt(high / low)


def _is_size(item: Recommendation) -> bool:
    return item.name == "model_size"


def _size_item(won: SizedPlan, own: PlanAnswer) -> Recommendation:
    told = f"{quantity(won.num_parameters)} parameters are"
    if own.predicted_seconds is None:
        because = f"{told} there; the job's own size was not, within its part of the budget"
    else:
        because = f"{told} surely there sooner; the job's own size takes {format_seconds(own.predicted_seconds)}"
    return Recommendation(name="model_size", value=won.model_size, range=None, because=because, evidence=EVIDENCE)


def _row(one: SizedPlan) -> dict[str, Any]:
    plan = one.plan
    words = ("batch_size", "learning_rate", "predicted_seconds", "predicted_range")
    found = {name: getattr(plan, name) if plan else None for name in words}
    return {"model_size": one.model_size, "num_parameters": one.num_parameters, **found, "why": one.why}


def _told(one: SizedPlan) -> str:
    plan = one.plan
    if plan is None or plan.predicted_seconds is None or plan.predicted_range is None:
        why = one.why or next(iter(plan.missing if plan else ()), "nothing there reached the target")
        return f"At {one.model_size} there is no forecast: {why}"
    about, low, high = (format_seconds(value) for value in (plan.predicted_seconds, *plan.predicted_range))
    return (
        f"At {one.model_size} ({quantity(one.num_parameters)} parameters) the target takes about {about} "
        f"({low} to {high}), with batches of {plan.batch_size:,} at a rate of {plan.learning_rate:.3g}"
    )
