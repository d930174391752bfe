"""What the runs of a proof say: who met the target sooner, by how much, how surely, and what it cost."""

import math
import statistics
from collections.abc import Sequence
from typing import Any

from legroom.errors import NothingMeasured
from legroom.laws.intervals import ratio_mean
from legroom.laws.time_to_target import money
from legroom.logbook import Records
from legroom.questions.prove.answer import ProveAnswer, Verdict
from legroom.questions.prove.evidence import Outcome, Pair, gather
from legroom.questions.prove.records import ProveQuestion
from legroom.questions.prove.words import notes_of
from legroom.training.records import Train

EQUAL = 1.05
"""Factor within which both count as equally fast, where the whole range lies inside."""


def advise(records: Records, question: ProveQuestion) -> ProveAnswer:
    """The answer that the runs give."""
    pairs = gather(records.entries, question)
    if not pairs:
        raise NothingMeasured("No seed has run in both arms yet. Let it go on with legroom prove --resume")
    plans, rivals = [pair.plan for pair in pairs], [pair.rival for pair in pairs]
    plan_seconds, rival_seconds = seconds_to_target(plans), seconds_to_target(rivals)
    speedup, span, at_least = compare(pairs)
    saved = None if plan_seconds is None or rival_seconds is None else rival_seconds - plan_seconds
    cost, description = question.plan_cost_seconds, records.description()
    answer = ProveAnswer(
        job=records.head.job,
        machine=records.head.machine,
        seconds=records.seconds(),
        device=question.plan.device,
        plan_path=question.plan_path,
        against=question.against,
        target={"name": question.metric, "value": question.target},
        seeds=[pair.seed for pair in pairs],
        verdict=judge(pairs, speedup, span),
        speedup=speedup,
        range=span,
        at_least=at_least,
        plan_seconds=plan_seconds,
        rival_seconds=rival_seconds,
        plan_money=_money(plan_seconds, question.plan, question),
        rival_money=_money(rival_seconds, question.rival, question),
        plan_steps=statistics.fmean(run.num_steps for run in plans),
        rival_steps=statistics.fmean(run.num_steps for run in rivals),
        plan_score=_mean(run.value(question.metric) for run in plans),
        rival_score=_mean(run.value(question.metric) for run in rivals),
        num_plan_reached=_num_met(plans),
        num_rival_reached=_num_met(rivals),
        equal_time=at_equal_time(pairs, question),
        plan_cost_seconds=cost,
        payback_runs=cost / saved if cost is not None and saved is not None and saved > 0 else None,
        predicted_seconds=question.predicted_seconds,
        predicted_range=question.predicted_range,
        num_predicted_hits=_num_hits(plans, question),
        evaluate_samples=question.evaluate_samples,
        plan_settings=_settings(question.plan.settings),
        rival_settings=_settings(question.rival.settings),
        points=[run.point(question.metric) for pair in pairs for run in (pair.rival, pair.plan, pair.plan_long) if run],
    )
    return notes_of(answer, pairs, [*records.notes, *description.notes, *question.notes])


def seconds_to_target(runs: Sequence[Outcome]) -> float | None:
    """Seconds to the target in the geometric mean; where some runs missed it, all seconds spent over the runs that met.

    The latter is what somebody pays who starts again until a run succeeds: the expected running time of N. Hansen et
    al., COCO (2016). None where no run met it.
    """
    if len(runs) == _num_met(runs):
        return statistics.geometric_mean([run.seconds for run in runs])
    return sum(run.seconds for run in runs) / _num_met(runs) if _num_met(runs) else None


def compare(pairs: Sequence[Pair]) -> tuple[float | None, tuple[float, float] | None, bool]:
    """The speedup, its range by the seeds, and whether it is the least that it can be.

    A rival that missed the target had all of its own run: the ratio of the pair is then at least what we saw. Of a plan
    that missed it nobody knows how much longer it takes, so the seeds tell no range.
    """
    plans, rivals = [pair.plan for pair in pairs], [pair.rival for pair in pairs]
    if _num_met(plans) < len(plans):
        plan, rival = seconds_to_target(plans), seconds_to_target(rivals)
        return (None if plan is None or rival is None else rival / plan), None, False
    mean, span = ratio_mean([pair.rival.seconds / pair.plan.seconds for pair in pairs])
    return mean, span, _num_met(rivals) < len(rivals)


def judge(pairs: Sequence[Pair], speedup: float | None, span: tuple[float, float] | None) -> Verdict:
    """Who won, where the seeds let anybody tell."""
    num_plan, num_rival = _num_met([pair.plan for pair in pairs]), _num_met([pair.rival for pair in pairs])
    if num_plan < len(pairs):
        is_lost = num_rival > 0 if speedup is None else speedup < 1
        return "lost" if is_lost else "unclear"
    if span is None:
        return "unclear"
    low, high = span
    if low >= 1 / EQUAL and high <= EQUAL:
        return "equal"
    return "won" if low > 1 else "lost" if high < 1 and num_rival == len(pairs) else "unclear"


def at_equal_time(pairs: Sequence[Pair], question: ProveQuestion) -> dict[str, Any] | None:
    """What the plan came to in the seconds of its rival's own run, beside what the rival came to.

    Which is better is left open where a longer run took other seconds than its rival did.
    """
    both = [(pair.rival, pair.plan_long) for pair in pairs if pair.plan_long is not None]
    rivals = [rival.last_value for rival, _ in both if rival.last_value is not None]
    plans = [long.last_value for _, long in both if long.last_value is not None]
    if len(rivals) < len(pairs) or len(plans) < len(pairs):
        return None
    sign, equal = 1.0 if question.goal == "max" else -1.0, all(pair.is_equal_time for pair in pairs)
    plan, rival, spread = statistics.fmean(plans), statistics.fmean(rivals), max(rivals) - min(rivals)
    return {
        "plan_score": plan,
        "rival_score": rival,
        "spread": spread if len(rivals) > 1 else None,
        "no_worse": sign * (plan - rival) >= -spread if len(rivals) > 1 and equal else None,
        "plan_seconds": statistics.fmean(long.trained.seconds for _, long in both),
        "rival_seconds": statistics.fmean(rival.trained.seconds for rival, _ in both),
    }


def _money(seconds: float | None, arm: Train, question: ProveQuestion) -> float | None:
    """What the seconds of an arm cost; processes on a CPU share one machine, whose hour is paid for once."""
    if seconds is None or question.price_per_hour is None:
        return None
    num_paid = 1 if arm.device == "cpu" else int(arm.settings["num_devices"])
    return money(seconds, num_paid, question.price_per_hour)


def _num_met(runs: Sequence[Outcome]) -> int:
    return sum(run.met is not None for run in runs)


def _num_hits(plans: Sequence[Outcome], question: ProveQuestion) -> int | None:
    if question.predicted_range is None:
        return None
    low, high = question.predicted_range
    return sum(run.met is not None and low <= run.seconds <= high for run in plans)


def _mean(values: Any) -> float | None:
    known = [value for value in values if value is not None and math.isfinite(value)]
    return statistics.fmean(known) if known else None


def _settings(settings: Any) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name != "seed"}
