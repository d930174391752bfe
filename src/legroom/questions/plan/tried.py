"""What rehearsals of a plan say: the updates and seconds of its run, on seeds that nothing was sought with."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace

from legroom.questions.plan.choice import MISSED, Candidate, evaluations_of
from legroom.questions.plan.records import PlanQuestion, Rehearsal

DOUBT = {2: 2.2, 3: 1.6}
"""Standard deviations, by the number of runs that told them, between which four fresh runs of five lie."""
LEAST_DOUBT = 1.15
"""Of the updates, as a factor: evaluations are so far apart."""


def rehearsals_of(question: PlanQuestion, size: int) -> list[Rehearsal]:
    """Those of updates of that many samples."""
    return [run for run in question.rehearsals if run.size == size]


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
    steps = [run.num_steps * MISSED if run.steps_to_target is None else run.steps_to_target for run in question.runs]
    return spread_of(steps) or LEAST_DOUBT


def spread_of(steps: Sequence[float]) -> float | None:
    """By which factor a fresh run may be off, by how far those that were made lie apart; None of a single one.

    >>> spread_of([100, 100, 100]), round(spread_of([80, 100, 125]), 2), spread_of([100])
    (1.15, 1.43, None)
    """
    if len(steps) < 2:
        return None
    doubt = DOUBT.get(len(steps), DOUBT[3])
    return max(LEAST_DOUBT, math.exp(doubt * statistics.stdev(map(math.log, steps))))
