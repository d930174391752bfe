"""What rehearsals of a plan say: the updates and seconds of its run, on seeds that nothing was sought with."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace

from legroom.questions.plan.candidates import MISSED, Candidate, evaluations_of
from legroom.questions.plan.factors import LEAST_DOUBT
from legroom.questions.plan.records import PlanQuestion, Rehearsal
from legroom.units import format_seconds

LONGER = 1.3
"""Times the updates, for the next run after one that missed the target."""
WIDE = 1.4
"""Runs further apart are followed by more: the next could be off by more than a factor of two from end to end."""
USUAL, USUAL_PACE, WEIGHT = 0.15, math.log(LEAST_DOUBT), 3.0
"""Standard deviation of ln updates over seeds as most jobs have it, of ln seconds of an update as most machines have
it, and how many runs that is worth: three runs that happen to be alike do not promise that the fourth is."""
CLEARLY = 1.8
"""Standard deviations of what runs ended at, by which they must be better than the target in the mean."""
DEVIATIONS, SURE = 1.5, 1.65
"""Between which four fresh runs of five lie, by Student's t with as many degrees of freedom; and below which a normal
number lies 19 times of 20."""


def rehearsals_of(question: PlanQuestion, chosen: Candidate) -> list[Rehearsal]:
    """Those of updates of that many samples on that many devices, at that share of the rate and of the length."""
    return [run for run in question.rehearsals if choice_of(run) == choice_of(chosen)]


def choice_of(one: Candidate | Rehearsal) -> tuple[int, int, float, float]:
    """What tells one choice from another, and the runs that tried it out."""
    return one.size, one.num_devices, one.rate_share, one.length_share


def are_there(runs: Sequence[Rehearsal]) -> bool:
    """Whether a plan may rest on these runs: most reached the target, and none diverged."""
    return sum(run.is_there for run in runs) > len(runs) / 2 and not any(run.diverged for run in runs)


def are_steady(runs: Sequence[Rehearsal]) -> bool:
    """Whether all reached the target, in numbers of updates that lie close together."""
    return all(run.is_there for run in runs) and spread_of(counted_steps(runs)) <= WIDE


def is_clear(runs: Sequence[Rehearsal]) -> bool:
    """Whether these runs ended better than the target by more than seeds differ: nine of ten fresh ones will, too.

    One that was there sooner counts with what it had then.
    """
    margins = [run.margin for run in runs if run.margin is not None]
    return len(margins) < 2 or statistics.fmean(margins) >= CLEARLY * statistics.stdev(margins)


def as_tried(question: PlanQuestion, chosen: Candidate, runs: Sequence[Rehearsal]) -> Candidate:
    """What was chosen, with the updates and seconds of its runs in the middle; a missed target counts as late."""
    num_steps = math.exp(statistics.fmean(map(math.log, counted_steps(runs))))
    return replace(
        chosen,
        num_steps=num_steps,
        step_seconds=statistics.median(run.step_seconds for run in runs),
        num_evaluations=evaluations_of(question, num_steps, chosen.size),
        evaluation=statistics.median(run.evaluation_seconds for run in runs),
    )


def length_after(runs: Sequence[Rehearsal]) -> int:
    """Updates of the next run: as many as before, more after one that missed the target."""
    return max(run.length if run.is_there else round(LONGER * run.length) for run in runs)


def tried_note(runs: Sequence[Rehearsal]) -> list[str]:
    """What each run took, as a sentence."""
    if not runs:
        return []
    num = f"{len(runs)} fresh seeds" if len(runs) > 1 else "one fresh seed"
    return [f"Tried out on {num}: to the target in {took(runs)}"]


def took(runs: Sequence[Rehearsal]) -> str:
    """The seconds of each run, and which of them missed the target."""
    return ", ".join(format_seconds(run.seconds) + ("" if run.is_there else " without reaching it") for run in runs)


def counted_steps(runs: Sequence[Rehearsal]) -> list[float]:
    """Updates to the target; of a run that missed it, more than its length, also where it diverged long before."""
    return [run.num_steps if run.is_there else MISSED * max(run.length, run.num_steps) for run in runs]


def own_steps(question: PlanQuestion) -> list[float]:
    """Updates to the target by the job's own settings; of a run that missed it, more than it made.

    A run that was cut short says nothing of the target, where others do.
    """
    told = [run for run in question.runs if run.ended or run.steps_to_target is not None] or question.runs
    return [run.num_steps * MISSED if run.steps_to_target is None else run.steps_to_target for run in told]


def spread_of(steps: Sequence[float]) -> float:
    """By which factor a fresh run may be off, by how far those that were made lie apart.

    >>> round(spread_of([100, 100, 100]), 2), round(spread_of([70, 100, 143]), 2), round(spread_of([100]), 2)
    (1.22, 1.55, 1.37)
    """
    return math.exp(DEVIATIONS * math.sqrt(_variance(steps) * (1 + 1 / len(steps))))


def pace_spread(runs: Sequence[Rehearsal]) -> float:
    """By which factor the seconds of an update of a fresh run may be off, by how far those of these runs lie apart."""
    squares = _variance([run.step_seconds for run in runs], USUAL_PACE) * (1 + 1 / len(runs))
    return math.exp(DEVIATIONS * math.sqrt(squares))


def surely(plan: Sequence[float], own: Sequence[float], paces: Sequence[float]) -> float:
    """By which factor the middle of the plan's runs must lie below that of the job's own to be less in 19 cases of 20.

    plan, own: updates to the target. paces: seconds of an update of the plan over those of the job's own, in turns.

    >>> round(surely([100, 100, 100], [150, 150, 150], [2, 2, 2]), 2), round(surely([60, 100, 160], [200], []), 2)
    (1.18, 1.52)
    """
    squares = _variance(plan) / len(plan) + (_variance(own) / len(own) if own else 0.0)
    return math.exp(SURE * math.sqrt(squares + _pace_squares(paces)))


def surely_in_turns(paces: Sequence[float]) -> float:
    """By which factor the middle of such paces must lie below 1 for updates to be faster in 19 cases of 20.

    >>> round(surely_in_turns([0.8, 0.8, 0.8]), 2), round(surely_in_turns([0.7, 1.0, 0.9]), 2)
    (1.06, 1.13)
    """
    return math.exp(SURE * math.sqrt(_pace_squares(paces)))


def _pace_squares(paces: Sequence[float]) -> float:
    return _variance(paces, USUAL_PACE) / len(paces) if paces else USUAL_PACE**2


def turns_of(runs: Sequence[Rehearsal]) -> list[float]:
    """Seconds of an update over those of the job's own right before, of each run before which these were timed."""
    return [run.step_seconds / run.own_step_seconds for run in runs if run.own_step_seconds]


def _variance(values: Sequence[float], usual: float = USUAL) -> float:
    logs = [math.log(each) for each in values]
    squares = sum((each - statistics.fmean(logs)) ** 2 for each in logs)
    return (squares + WEIGHT * usual**2) / (len(logs) - 1 + WEIGHT)
