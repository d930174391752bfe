"""How long the plan's run takes to the target, how long the job's own does, and whether the first is surely less."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from legroom.laws.time_to_target import compute_seconds, joined_spread, least_steps_from, money
from legroom.questions.plan.candidates import (
    LEAST_SPREAD,
    Candidate,
    Learned,
    candidate,
    evaluations_of,
    on_one_machine,
    sizes_of,
    workers_at,
)
from legroom.questions.plan.choice import choose, question_cost
from legroom.questions.plan.evidence import middle_run
from legroom.questions.plan.factors import Pace, joined, pace_of
from legroom.questions.plan.faster import quickened
from legroom.questions.plan.groups import Group, group_factors, group_of
from legroom.questions.plan.records import OwnRun, PlanQuestion, Rehearsal
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
class Baseline:
    """The job's own run to the target."""

    seconds: float | None
    source: str
    """`measured`; `forecast`: of a run that was cut short; `at least`: it was not there by then, and nothing tells
    more; `never`: it ended before; empty where nothing is known."""
    candidate: Candidate | None = None


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
    learned, num_workers = Learned.of(question), workers_at(question, chosen.batch_size)
    pace, seconds_spread = joined(question, pace, chosen.batch_size, num_workers)
    group = group_of(question, chosen.num_devices) if chosen.num_devices > 1 else None
    if group is not None:
        seconds_spread = joined_spread(seconds_spread, group.spread(chosen.batch_size))
    chosen, pace, seconds_spread = quickened(question, chosen, pace, num_workers, seconds_spread)
    steps_spread, baseline = learned.spread(chosen.size), baseline_of(question, rehearsals_of(question, chosen))
    # Its updates are those of the slowest seed already: what may still make it later is the pace.
    length, doubt = math.ceil(chosen.num_steps), joined_spread(LEAST_SPREAD, seconds_spread)
    if chosen.size not in learned.rates:  # their number is a promise of the critical batch size
        doubt = joined_spread(doubt, steps_spread)
    runs = rehearsals_of(question, chosen)
    if runs:
        chosen = as_tried(question, chosen, runs)
        length = length_after(runs)
        doubt = surely(counted_steps(runs), own_steps(question), turns_of(runs))
        pace, seconds_spread = _through(pace, group, chosen, num_workers), pace_spread(runs)
        steps_spread = spread_of(counted_steps(runs))
    cost, own = question_cost(question), baseline.candidate
    if baseline.source == "forecast":
        doubt = joined_spread(doubt, FORECAST_DOUBT)
    if baseline.source == "at least" and runs:  # its run was cut short there: to get there it takes more
        doubt = 1.0
    can_rely = not runs or are_there(runs)
    is_asked = question.batch_size is not None or 1 not in question.numbers
    return Forecast(
        chosen=chosen,
        learned=learned,
        pace=pace,
        num_workers=num_workers,
        steps_spread=steps_spread,
        seconds_spread=seconds_spread,
        baseline=baseline,
        length=length,
        is_tried=bool(runs),
        can_rely=can_rely,
        is_better=is_asked
        # Where the job's own settings never get there, or time was left for no run of them, what does so stands alone.
        or (can_rely and (own is None or (_is_worth(question, chosen, own) and cost(chosen) * doubt < cost(own)))),
        is_worth_trying=is_asked or own is None or cost(chosen) / steps_spread < cost(own),
    )


def _is_worth(question: PlanQuestion, chosen: Candidate, own: Candidate) -> bool:
    """Whether anybody would notice: time that a run gains in a blink is no reason to change it."""
    return question.goal == "frugal" or abs(own.seconds - chosen.seconds) >= BLINK


def _through(pace: Pace, group: Group | None, chosen: Candidate, num_workers: int) -> Pace:
    """The pace of one device such that the way chosen takes its seconds."""
    if group is None:
        return pace.through(chosen.batch_size, num_workers, chosen.step_seconds / chosen.num_passes)
    slowdown, computing = group.slowdown(chosen.batch_size), chosen.step_seconds - group.waits(chosen.batch_size)
    each = pace.on(group.num_devices, slowdown)
    return each.through(chosen.batch_size, num_workers, computing / chosen.num_passes).on(1, 1 / slowdown)


def baseline_of(question: PlanQuestion, beside: Sequence[Rehearsal] = ()) -> Baseline:
    """By the runs that were made with the job's own settings, at the pace of their turns beside those of a choice."""
    run, own = middle_run(question.runs), question.own_steps
    if run is None:
        return Baseline(seconds=None, source="")
    is_forecast = question.target is not None and question.target["from"] == "forecast"
    steps: float
    if run.steps_to_target is not None:
        steps, source = run.steps_to_target, "measured"
    elif is_forecast and own is not None:
        steps, source = own, "forecast"
    elif run.ended:
        return Baseline(seconds=None, source="never")
    elif (more := _more_like_trials(question, run)) is not None:
        steps, source = run.num_steps * more, "forecast"
    else:
        steps, source = run.num_steps, "at least"
    now = _pace_now(beside or question.rehearsals, run)
    found = Candidate(
        batch_size=run.batch_size,
        num_passes=run.num_passes,
        num_steps=steps,
        step_seconds=now * run.step_seconds,
        num_evaluations=evaluations_of(question, steps, run.batch_size * run.num_passes),
        evaluation=now * run.evaluation_seconds,
    )
    return Baseline(seconds=found.seconds, source=source, candidate=found)


def _pace_now(rehearsals: Sequence[Rehearsal], run: OwnRun) -> float:
    """How many times as long the job's own updates took when the plan was tried out, as when they were run alone."""
    turns = [tried.own_step_seconds for tried in rehearsals if tried.own_step_seconds]
    return statistics.median(turns) / run.step_seconds if turns else 1.0


def _more_like_trials(question: PlanQuestion, run: OwnRun) -> float | None:
    """How many times its updates a run that was cut short needs to the target, if it goes on as trials did.

    Trials of the rate that was found tell after how many updates they had its value, and after how many the target.
    """
    answer = next((one for one in question.rates if one.reached), None)
    if answer is None or run.value is None:
        return None
    found = [
        steps
        for curve in answer.curves
        if curve.get("learning_rate") == answer.learning_rate
        if (steps := _steps_to(run.value, curve["num_steps"], curve["value"], answer.target["value"])) is not None
    ]
    return max(1.0, answer.num_steps / statistics.median(found)) if found else None


def _steps_to(value: float, steps: Sequence[float], values: Sequence[float | None], target: float) -> float | None:
    """Updates after which a curve that moves towards the target had the value, by lines over ln updates."""
    first = next((seen for seen in values if seen is not None), target)
    sign = -1.0 if first < target else 1.0
    before: tuple[float, float] | None = None
    for count, seen in zip(steps, values, strict=True):
        if seen is None:  # a trial whose loss was no number there
            continue
        if sign * seen <= sign * value:
            if before is None or before[1] == seen:
                return count
            share = (before[1] - value) / (before[1] - seen)
            return float(before[0] * (count / before[0]) ** share)
        before = (count, seen)
    return None


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
        "baseline_seconds": found.baseline.seconds,
        "target": f"{target['name']}={target['value']!r}" if target else "",
    }


def cost_in_money(question: PlanQuestion, seconds: float, num_paid: int) -> float | None:
    """By the price of an hour; None where none was named."""
    price = question.price_per_hour
    return None if price is None or not math.isfinite(seconds) else money(seconds, num_paid, price)
