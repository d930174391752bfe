"""Which size reaches the wanted loss soonest, and which gives the best loss within a time, by the curves measured."""

import statistics
from collections.abc import Sequence
from typing import Any

from legroom.questions.size.curve import WITHIN
from legroom.questions.size.evidence import Evidence, Trial, middle
from legroom.questions.size.records import SizeQuestion

AS_GOOD = 1.15
"""Times the least seconds, within which a size is as good."""
WITHIN_SHARE = 0.5
"""Of the recommended size's time: that for which the best loss is told where nobody names one."""


def wanted_loss(evidence: Evidence, question: SizeQuestion) -> tuple[float | None, str]:
    """The loss to reach, and where it comes from: what the job's own size comes to within a hundredth."""
    if question.target_loss is not None:
        return question.target_loss, "given"
    fraction = evidence.judged_fraction()
    values = [value for value in question.values if evidence.at(value, fraction)]
    if not values:
        return None, "own"
    own = question.own_value if question.own_value in values else max(values)
    assert own is not None
    return (1 + WITHIN) * statistics.median(_least(evidence.at(own, fraction))), "own"


def _least(trials: Sequence[Trial]) -> list[float]:
    return [trial.curve.least_loss for trial in trials if trial.curve is not None]


def times_to(evidence: Evidence, question: SizeQuestion, loss: float | None) -> list[dict[str, Any]]:
    """For each size, updates and seconds to the loss, in the middle of the seeds."""
    fraction, paces = evidence.judged_fraction(), evidence.step_seconds()
    sizes = dict(zip(question.values, question.num_parameters, strict=True))
    found = []
    for value in question.values:
        trials = evidence.at(value, fraction)
        if not trials:
            continue
        steps = _steps_to(trials, loss)
        found.append(
            {
                "value": value,
                "num_parameters": sizes[value],
                "step_seconds": paces[value],
                "steps": steps,
                "seconds": None if steps is None else steps * paces[value],
                "least_loss": statistics.median(_least(trials)),
                "num_seeds": len(trials),
                "settled": not any(trial.at_least for trial in trials),
            }
        )
    return found


def _steps_to(trials: Sequence[Trial], loss: float | None) -> float | None:
    """In the middle of the seeds; None where half of them or more do not get there."""
    if loss is None:
        return None
    reached = [steps for trial in trials if trial.curve and (steps := trial.curve.steps_to(loss)) is not None]
    return middle(reached) if 2 * len(reached) > len(trials) else None


def soonest(times: Sequence[dict[str, Any]]) -> tuple[dict[str, Any] | None, tuple[int, int] | None]:
    """The size that is there first, and the smallest and largest that are nearly as soon."""
    there = [each for each in times if each["seconds"] is not None]
    if not there:
        return None, None
    best = min(there, key=lambda each: float(each["seconds"]))
    near = [each["value"] for each in there if each["seconds"] <= AS_GOOD * best["seconds"]]
    return best, (min(near), max(near))


def best_within(
    evidence: Evidence, question: SizeQuestion, times: Sequence[dict[str, Any]], best: dict[str, Any] | None
) -> dict[str, Any]:
    """The size with the lowest loss after some seconds of training."""
    seconds = question.within_seconds or (WITHIN_SHARE * best["seconds"] if best else None)
    if seconds is None:
        return {}
    found = []
    for each in times:
        trials = evidence.at(each["value"], evidence.judged_fraction())
        losses = [loss for trial in trials if trial.curve and (loss := _loss_by(trial, seconds / each["step_seconds"]))]
        if losses:
            found.append((statistics.median(losses), each["value"]))
    if not found:
        return {"seconds": seconds, "value": None, "loss": None}
    loss, value = min(found)
    return {"seconds": seconds, "value": value, "loss": loss}


def _loss_by(trial: Trial, num_steps: float) -> float | None:
    """The lowest loss by then; a trial that had not settled and ended before says nothing of then."""
    assert trial.curve is not None
    if trial.at_least and num_steps > trial.curve.last_step:
        return None
    return trial.curve.loss_by(num_steps)
