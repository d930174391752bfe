"""What rehearsals of a plan say: the updates and seconds of its run, on seeds that nothing was sought with."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace

from legroom.questions.plan.choice import MISSED, Candidate, evaluations_of
from legroom.questions.plan.records import PlanQuestion, Rehearsal

USUAL, WEIGHT = 0.15, 3.0
"""Standard deviation of ln updates over seeds as most jobs have it, and how many runs that is worth: three runs that
happen to be alike do not promise that the fourth is."""
DEVIATIONS = 1.5
"""Between which four fresh runs of five lie, by Student's t with as many degrees of freedom."""


def rehearsals_of(question: PlanQuestion, chosen: Candidate) -> list[Rehearsal]:
    """Those of updates of that many samples on that many devices."""
    wanted = (chosen.size, chosen.num_devices)
    return [run for run in question.rehearsals if (run.size, run.num_devices) == wanted]


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


def counted_steps(runs: Sequence[Rehearsal]) -> list[float]:
    """Updates to the target; of a run that missed it, more than it made."""
    return [run.num_steps * (1.0 if run.is_there else MISSED) for run in runs]


def own_spread(question: PlanQuestion) -> float:
    """By which factor a fresh run by the job's own settings may be off."""
    return spread_of(
        [run.num_steps * MISSED if run.steps_to_target is None else run.steps_to_target for run in question.runs]
    )


def spread_of(steps: Sequence[float]) -> float:
    """By which factor a fresh run may be off, by how far those that were made lie apart.

    >>> round(spread_of([100, 100, 100]), 2), round(spread_of([70, 100, 143]), 2), round(spread_of([100]), 2)
    (1.22, 1.55, 1.37)
    """
    logs, num = [math.log(each) for each in steps], len(steps)
    squares = sum((each - statistics.fmean(logs)) ** 2 for each in logs) + WEIGHT * USUAL**2
    return math.exp(DEVIATIONS * math.sqrt(squares / (num - 1 + WEIGHT) * (1 + 1 / num)))
