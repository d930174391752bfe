"""Which size reaches the wanted loss soonest, and which gives the best loss within a time, by the curves measured."""

import math
import statistics
from collections.abc import Sequence
from typing import Any

from legroom.questions.size.curve import WITHIN
from legroom.questions.size.evidence import Evidence
from legroom.questions.size.records import SizeQuestion
from legroom.questions.size.trials import Trial, middle

AS_GOOD = 1.15
"""Times the least seconds, within which a size is as good."""
WITHIN_SHARE = 0.5
"""Of the recommended size's time: that for which the best loss is told where nobody names one."""


def wanted_loss(evidence: Evidence, question: SizeQuestion) -> dict[str, Any]:
    """The loss to reach, and where it comes from: what the job's own size comes to within a hundredth.

    Where that did not come to its minimum, it is what the largest size did that came to its own.
    """
    if question.target_loss is not None:
        return {"loss": question.target_loss, "from": "given"}
    fraction = evidence.judged_fraction()
    tried = {value: evidence.at(value, fraction) for value in question.values if evidence.at(value, fraction)}
    settled = {
        value: there for value, trials in tried.items() if (there := [t for t in trials if t.counted < math.inf])
    }
    if not tried:
        return {"loss": None, "from": "own"}
    is_own = question.own_value in settled
    value = question.own_value if is_own else max(settled or tried)
    assert value is not None
    # Of an even number of runs the upper one in the middle: a mean of two would be reached by one of them alone.
    loss = (1 + WITHIN) * statistics.median_high(trial.least_loss for trial in (settled or tried)[value])
    return {"loss": loss, "from": "own" if is_own else "largest tried", "value": value, "settled": bool(settled)}


def times_to(evidence: Evidence, question: SizeQuestion, loss: float | None) -> list[dict[str, Any]]:
    """For each size, updates and seconds to the loss, in the middle of the seeds."""
    fraction = evidence.judged_fraction()
    there = [value for value in question.values if evidence.at(value, fraction)]
    return [_times(evidence, question, value, loss) for value in there]


def _times(evidence: Evidence, question: SizeQuestion, value: int, loss: float | None) -> dict[str, Any]:
    """A run that does not get there, or ends before, takes longer than any that does."""
    fraction, pace = evidence.judged_fraction(), evidence.step_seconds()[value]
    trials, runs = evidence.at(value, fraction), evidence.runs(value, fraction)
    reached = sorted(steps for run in runs if (steps := _steps_to(run, loss)) < math.inf)
    steps = middle([*reached, *([math.inf] * (len(runs) - len(reached)))])
    return {
        "value": value,
        "num_parameters": trials[0].result.num_parameters,
        "step_seconds": pace,
        "steps": steps if steps < math.inf else None,
        "steps_range": (reached[0], reached[-1]) if reached else None,
        "seconds": steps * pace if steps < math.inf else None,
        "fastest_seconds": reached[0] * pace if reached else None,
        "cooled_seconds": pace * cooled if (cooled := _cooled_to(trials, loss)) is not None else None,
        "least_loss": statistics.median(trial.least_loss for trial in trials),
        "num_seeds": len(runs),
        "num_reached": len(reached),
        "settled": all(trial.counted < math.inf for trial in runs),
    }


def _steps_to(trial: Trial, loss: float | None) -> float:
    """Updates to the loss; infinite where it was not reached."""
    steps = None if trial.curve is None or loss is None else trial.curve.steps_to(loss)
    return math.inf if steps is None else steps


def _cooled_to(trials: Sequence[Trial], loss: float | None) -> int | None:
    """The length of the shortest run that cooled down at its end to the loss; None where none did."""
    cooled = [each for trial in trials for each in trial.cooled_curve]
    return min((step for step, least in cooled if loss is not None and least <= loss), default=None)


def soonest(times: Sequence[dict[str, Any]]) -> tuple[dict[str, Any] | None, tuple[int, int] | None]:
    """The size that is there first at a constant rate; the smallest and largest of which a run was nearly as soon."""
    there = [each for each in times if each["seconds"] is not None]
    if not there:
        return None, None
    best = min(there, key=lambda each: float(each["seconds"]))
    ran = [each for each in times if each["fastest_seconds"] is not None]
    near = [each["value"] for each in ran if each["fastest_seconds"] <= AS_GOOD * best["seconds"]]
    return best, (min(near), max(near))


def best_within(
    evidence: Evidence, question: SizeQuestion, times: Sequence[dict[str, Any]], best: dict[str, Any] | None
) -> dict[str, Any]:
    """The size with the lowest loss after some seconds of training, at a constant rate or cooled down at the end."""
    seconds = question.within_seconds or (WITHIN_SHARE * best["seconds"] if best else None)
    if seconds is None:
        return {}
    found = []
    for each in times:
        trials, num_steps = evidence.at(each["value"], evidence.judged_fraction()), seconds / each["step_seconds"]
        if losses := [loss for trial in trials if (loss := _loss_by(trial, num_steps))]:
            found.append((statistics.median(losses), each["value"], False))
        if cooled := [loss for trial in trials for step, loss in trial.cooled_curve if step <= num_steps]:
            found.append((min(cooled), each["value"], True))
    if not found:
        return {"seconds": seconds, "value": None, "loss": None}
    loss, value, cools = min(found)
    return {"seconds": seconds, "value": value, "loss": loss, "cools_down": cools}


def _loss_by(trial: Trial, num_steps: float) -> float | None:
    """The lowest loss by then; a trial that had not settled and ended before says nothing of then."""
    assert trial.curve is not None
    if trial.at_least and num_steps > trial.curve.last_step:
        return None
    return trial.curve.loss_by(num_steps)
