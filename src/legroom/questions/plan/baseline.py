"""What the job's own settings take to the target, by their runs, and by trials where these were cut short."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from legroom.questions.plan.candidates import Candidate, evaluations_of
from legroom.questions.plan.evidence import middle_run
from legroom.questions.plan.records import OwnRun, PlanQuestion, Rehearsal


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The job's own run to the target."""

    seconds: float | None
    source: str
    """`measured`; `forecast`: of a run that was cut short; `at least`: it was not there by then, and nothing tells
    more; `never`: it ended before; empty where nothing is known."""
    candidate: Candidate | None = None


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
