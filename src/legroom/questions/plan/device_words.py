"""Why so many devices: what each number would take and cost, what is forecast, and what BatchNorm sees."""

import math

from legroom.job import Settings
from legroom.questions.base import Recommendation
from legroom.questions.plan.candidates import Candidate, candidate, sizes_of
from legroom.questions.plan.choice import cheapest, question_cost
from legroom.questions.plan.factors import pace_of
from legroom.questions.plan.forecast import NEAR_BEST, Forecast
from legroom.questions.plan.groups import group_of, numbers_of
from legroom.questions.plan.records import PlanQuestion
from legroom.reports.numbers import quantity
from legroom.units import format_seconds

EVIDENCE = ["backward_times", "ranks_timed"]


def best_by_number(question: PlanQuestion, found: Forecast) -> dict[int, Candidate]:
    """The best way to run on each number of devices that anything tells of."""
    pace = pace_of(question)
    assert pace is not None
    cost, best = question_cost(question), {}
    for num in numbers_of(question):
        sizes = sizes_of(question, found.learned, None, num)
        ways = [one for size in sizes if (one := candidate(question, pace, found.learned, size, num))]
        if ways:
            best[num] = cheapest(ways, cost, list(found.learned.rates))
    return {**best, found.chosen.num_devices: found.chosen}


def recommend_devices(question: PlanQuestion, found: Forecast) -> list[Recommendation]:
    """The number of devices, with what others would take; nothing where only one was in question."""
    if question.devices is None:
        return []
    best, chosen, cost = best_by_number(question, found), found.chosen, question_cost(question)
    near = [num for num, one in best.items() if cost(one) <= NEAR_BEST * cost(chosen)]
    source = "tried out" if found.is_tried else _source(question, chosen)
    told = [_way(question, one, _source(question, one)) for one in best.values() if one is not chosen]
    because = "; ".join([_way(question, chosen, source), *told])
    if len(question.numbers) == 1:
        because = f"as asked; {because}"
    return [
        Recommendation(
            name="num_devices",
            value=chosen.num_devices,
            range=(min(near), max(near)),
            because=because,
            evidence=list(EVIDENCE),
        ),
        *wire_items(question, chosen),
    ]


def wire_items(question: PlanQuestion, chosen: Candidate) -> list[Recommendation]:
    """How so many devices speak to each other, where `devices` found something better than torch's own way."""
    answer = question.devices
    if answer is None or chosen.num_devices == 1:
        return []
    is_of_buffers = not answer.broadcast_buffers and any(row["what"] == "buffers" for row in answer.wire)
    is_of_buckets = answer.bucket_cap_mb is not None and answer.num_devices == chosen.num_devices
    wanted = {"broadcast_buffers": is_of_buffers, "bucket_cap_mb": is_of_buckets}
    return [item for item in answer.recommendations if wanted.get(item.name)]


def _way(question: PlanQuestion, one: Candidate, source: str) -> str:
    """Such as: 4 devices take 600 updates of 110 ms (measured), 66 s, for 4 devices' hours."""
    who = "1 device takes" if one.num_devices == 1 else f"{one.num_devices:,} devices take"
    step, whole = quantity(one.step_seconds, "seconds"), format_seconds(one.seconds)
    text = f"{who} {math.ceil(one.num_steps):,} updates of {step} ({source}), {whole} in all"
    paid = one.num_paid * one.seconds
    if question.price_per_hour is not None:
        return f"{text}, for {paid / 3600 * question.price_per_hour:.3g}"
    return f"{text}, {format_seconds(paid)} of devices' time" if one.num_paid > 1 else text


def _source(question: PlanQuestion, one: Candidate) -> str:
    if one.num_devices == 1:
        return "measured"
    group = group_of(question, one.num_devices)
    return "measured" if group is not None and one.batch_size in group.measured else "forecast"


def device_notes(question: PlanQuestion, baseline: Settings, found: Forecast) -> list[str]:
    """What must be known of a run on several devices."""
    answer, chosen = question.devices, found.chosen
    if answer is None:
        return []
    notes = []
    if chosen.batch_size != baseline.batch_size and any(row["what"] == "SyncBatchNorm" for row in answer.wire):
        notes.append(
            f"BatchNorm sees {chosen.batch_size:,} samples, those of one device's pass, instead of "
            f"{baseline.batch_size:,}; the trials had all {found.learned.near(chosen.size).batch_size:,} of an update "
            "in one pass"
        )
    if chosen.num_devices == 1:
        return notes
    if chosen.num_devices > question.num_devices_here:
        notes.append(
            f"{chosen.num_devices:,} devices are not here ({question.num_devices_here} can be seen): what they take is "
            "a forecast, and legroom train --plan refuses to run it on this machine"
        )
    if answer.find_unused_parameters:
        notes.append("Some parameters get no gradient: train with --find-unused-parameters")
    return notes
