"""How long the plan's run takes to the target, how long the job's own does, and whether the first is surely less."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from legroom.laws.time_to_target import compute_seconds, joined_spread, least_steps_from, money
from legroom.questions.plan.baseline import Baseline, baseline_of
from legroom.questions.plan.candidates import (
    LEAST_SPREAD,
    Candidate,
    Learned,
    candidate,
    on_one_machine,
    sizes_of,
    workers_at,
)
from legroom.questions.plan.choice import choose, question_cost
from legroom.questions.plan.factors import Pace, joined, pace_of
from legroom.questions.plan.faster import quickened
from legroom.questions.plan.groups import Group, group_factors, group_of
from legroom.questions.plan.records import PlanQuestion, Rehearsal
from legroom.questions.plan.tried import (
    are_there,
    as_tried,
    counted_steps,
    length_after,
    own_steps,
    pace_spread,
    rehearsals_of,
    spread_of,
    surely,
    turns_of,
)

BLINK = 0.25
"""Seconds to the target that are not worth another setting."""
FORECAST_DOUBT = 1.5
"""By which factor the job's own run may be shorter than its forecast: it was 1.9 times where that could be checked."""
NEAR_BEST = 1.1
"""Times the least cost: batches within it are as good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The plan's run to the target."""

    chosen: Candidate
    learned: Learned
    pace: Pace
    num_workers: int
    steps_spread: float
    seconds_spread: float
    baseline: Baseline
    length: int
    """Updates of the run: the target should be met by then, and as a rule before."""
    is_tried: bool
    """Whether it was tried out on seeds that nothing was sought with."""
    can_rely: bool
    """Whether the runs that tried it out, where there were any, reached the target."""
    is_better: bool
    """Whether it surely costs less than the job's own: by the runs of both where it was tried out, else with a pace at
    the far end of its range."""
    is_worth_trying: bool
    """Whether it would cost less if all went well."""

    @property
    def spread(self) -> float:
        """By which factor the seconds may be off."""
        return joined_spread(self.steps_spread, self.seconds_spread)

    @property
    def range(self) -> tuple[float, float]:
        """Between which the seconds lie."""
        return self.chosen.seconds / self.spread, self.chosen.seconds * self.spread


def forecast_of(
    question: PlanQuestion, most: int | None = None, *, untried: bool = False, shorter: bool = False
) -> Forecast | None:
    """The forecast of the best way to run; None where no rate reached the target, or nothing was timed.

    untried: of the best among those that were not tried out; shorter: of these, in fewer updates than what was.
    """
    chosen, pace = choose(question, most, untried=untried, shorter=shorter), pace_of(question)
    if chosen is None or pace is None:
        return None
    runs = rehearsals_of(question, chosen)
    way = _promised(question, chosen, pace)
    way = _tried_out(question, way, runs) if runs else way
    baseline = baseline_of(question, runs)
    is_asked, can_rely = question.batch_size is not None or 1 not in question.numbers, not runs or are_there(runs)
    cost, own, spread = question_cost(question), baseline.candidate, joined_spread(way.steps_spread, way.seconds_spread)
    return Forecast(
        chosen=way.chosen,
        learned=Learned.of(question),
        pace=way.pace,
        num_workers=way.num_workers,
        steps_spread=way.steps_spread,
        seconds_spread=way.seconds_spread,
        baseline=baseline,
        length=way.length,
        is_tried=bool(runs),
        can_rely=can_rely,
        is_better=is_asked or (can_rely and _is_sooner(question, way, own, _doubt(way, baseline, runs))),
        is_worth_trying=is_asked or own is None or cost(way.chosen) / spread < cost(own),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How a choice runs, and by which factors that may be off."""

    chosen: Candidate
    group: Group | None
    pace: Pace
    num_workers: int
    steps_spread: float
    seconds_spread: float
    length: int
    doubt: float
    """Factor by which it must be sooner than the job's own run to be surely so."""


def _promised(question: PlanQuestion, chosen: Candidate, pace: Pace) -> Way:
    """By what was measured of its parts."""
    learned, num_workers = Learned.of(question), workers_at(question, chosen.batch_size)
    pace, seconds_spread = joined(question, pace, chosen.batch_size, num_workers)
    group = group_of(question, chosen.num_devices) if chosen.num_devices > 1 else None
    if group is not None:
        seconds_spread = joined_spread(seconds_spread, group.spread(chosen.batch_size))
    chosen, pace, seconds_spread = quickened(question, chosen, pace, num_workers, seconds_spread)
    steps_spread = learned.spread(chosen.size)
    # Its updates are those of the slowest seed already: what may still make it later is the pace, and at a batch
    # without a rate of its own the critical batch size that promises them.
    doubt = joined_spread(LEAST_SPREAD, seconds_spread)
    return Way(
        chosen=chosen,
        group=group,
        pace=pace,
        num_workers=num_workers,
        steps_spread=steps_spread,
        seconds_spread=seconds_spread,
        length=math.ceil(chosen.num_steps),
        doubt=doubt if chosen.size in learned.rates else joined_spread(doubt, steps_spread),
    )


def _tried_out(question: PlanQuestion, way: Way, runs: Sequence[Rehearsal]) -> Way:
    """By the runs that tried it out."""
    chosen = as_tried(question, way.chosen, runs)
    return replace(
        way,
        chosen=chosen,
        pace=_through(way.pace, way.group, chosen, way.num_workers),
        steps_spread=spread_of(counted_steps(runs)),
        seconds_spread=pace_spread(runs),
        length=length_after(runs),
        doubt=surely(counted_steps(runs), own_steps(question), turns_of(runs)),
    )


def _doubt(way: Way, baseline: Baseline, runs: Sequence[Rehearsal]) -> float:
    """With what is not sure of the job's own run."""
    if baseline.source == "at least" and runs:  # it was cut short there: to get to the target it takes more
        return 1.0
    return joined_spread(way.doubt, FORECAST_DOUBT) if baseline.source == "forecast" else way.doubt


def _is_sooner(question: PlanQuestion, way: Way, own: Candidate | None, doubt: float) -> bool:
    """Whether it surely costs less, and anybody would notice: a blink is no reason to change anything.

    Where the job's own settings never get there, or time was left for no run of them, what does so stands alone.
    """
    if own is None:
        return True
    cost, gain = question_cost(question), abs(own.seconds - way.chosen.seconds)
    return cost(way.chosen) * doubt < cost(own) and (question.goal == "frugal" or gain >= BLINK)


def _through(pace: Pace, group: Group | None, chosen: Candidate, num_workers: int) -> Pace:
    """The pace of one device such that the way chosen takes its seconds."""
    if group is None:
        return pace.through(chosen.batch_size, num_workers, chosen.step_seconds / chosen.num_passes)
    slowdown, computing = group.slowdown(chosen.batch_size), chosen.step_seconds - group.waits(chosen.batch_size)
    each = pace.on(group.num_devices, slowdown)
    return each.through(chosen.batch_size, num_workers, computing / chosen.num_passes).on(1, 1 / slowdown)


def as_good(question: PlanQuestion, found: Forecast) -> tuple[int, int]:
    """Batches that cost hardly more by the same factors."""
    cost = question_cost(question)
    num = found.chosen.num_devices
    sizes = sizes_of(question, found.learned, None, num)
    known = [one for size in sizes if (one := candidate(question, found.pace, found.learned, size, num))]
    near = [one.batch_size for one in known if cost(one) <= NEAR_BEST * cost(found.chosen)]
    size = found.chosen.batch_size
    return min([size, *near]), max([size, *near])


def factors_of(question: PlanQuestion, found: Forecast) -> Mapping[str, Any]:
    """The numbers of laws/time_to_target, by the names of its arguments: with them the page computes as we do."""
    chosen, pace, memory = found.chosen, found.pace, question.memory
    critical = found.learned.critical
    compute = compute_seconds(chosen.batch_size, pace.sizes, pace.seconds)
    target = question.target or {}
    return {
        "least_steps": least_steps_from(chosen.num_steps, chosen.size, critical or 0.0),
        "critical_batch_size": critical,
        "sizes": list(pace.sizes),
        "seconds": list(pace.seconds),
        "inline_seconds": pace.inline_seconds,
        "worker_seconds": pace.worker_seconds,
        "contention": pace.contention,
        "coherence": pace.coherence,
        "core_seconds": pace.core_seconds,
        "num_workers": found.num_workers,
        "fixed_bytes": memory.fixed_bytes if memory and memory.bytes_per_sample else None,
        "bytes_per_sample": memory.bytes_per_sample if memory and memory.bytes_per_sample else None,
        "device_bytes": memory.budget_bytes if memory and memory.bytes_per_sample else None,
        "evaluation": chosen.evaluation,
        "num_evaluations": chosen.num_evaluations,
        "update": pace.update,
        "batch_size": chosen.batch_size,
        "num_passes": chosen.num_passes,
        "num_devices": chosen.num_devices,
        **group_factors(question, chosen.batch_size, compute),
        "on_one_machine": int(on_one_machine(question)),
        "price_per_hour": question.price_per_hour,
        "steps_spread": found.steps_spread,
        "seconds_spread": found.seconds_spread,
        "parameter_bytes": question.parameter_bytes,
        "num_samples": question.num_samples,
        "baseline_seconds": found.baseline.seconds,
        "target": f"{target['name']}={target['value']!r}" if target else "",
    }


def cost_in_money(question: PlanQuestion, seconds: float, num_paid: int) -> float | None:
    """By the price of an hour; None where none was named."""
    price = question.price_per_hour
    return None if price is None or not math.isfinite(seconds) else money(seconds, num_paid, price)
