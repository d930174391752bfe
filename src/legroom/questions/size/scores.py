"""How the laws did at what was held out."""

import math
from collections.abc import Sequence
from typing import Any

from legroom.laws.model_size import SizeLaw
from legroom.questions.size.evidence import Evidence
from legroom.questions.size.loss_law import LossLaw
from legroom.questions.size.trials import Trial, middle

LEAST_INSIDE = 0.8
"""Share of the losses held out that must lie in their ranges before the law of the loss foretells any."""


def score_held_out(law: SizeLaw, losses: LossLaw | None, evidence: Evidence) -> list[dict[str, Any]]:
    """At each place held out: updates and loss foretold and measured, in the middle of the seeds."""
    places = sorted({trial.place for trial in evidence.of() if trial.held_out})
    return [_score(law, losses, evidence.at(*place)) for place in places]


def _score(law: SizeLaw, losses: LossLaw | None, trials: Sequence[Trial]) -> dict[str, Any]:
    """A trial that had not settled counts as the longest; where such a one is in the middle, at least so many."""
    place = trials[0].result.num_parameters, trials[0].result.num_samples
    steps = middle(trial.counted for trial in trials)
    at_least = math.isinf(steps)
    if at_least:
        steps = middle(trial.steps for trial in trials if trial.steps is not None)
    low, high = law.steps_range(*place, num_runs=as_sure(len(trials)))
    foretold = law.steps(*place)
    return {
        "value": trials[0].value,
        "fraction": trials[0].fraction,
        "num_seeds": len(trials),
        "num_settled": sum(math.isfinite(trial.counted) for trial in trials),
        "steps": steps,
        "at_least": at_least,
        "predicted_steps": foretold,
        "predicted_range": (low, high),
        "error": None if at_least else foretold / steps - 1,
        "inside": steps <= high if at_least else low <= steps <= high,
        **_loss_score(losses, place, middle(trial.least_loss for trial in trials), at_most=at_least),
    }


def as_sure(num_runs: int) -> float:
    """Of how many runs a mean scatters as the median of these does, if they are normal; two have none but their mean.

    >>> [round(as_sure(num_runs), 1) for num_runs in (1, 2, 3, 5, 101)]
    [1, 2, 2.2, 3.5, 64.6]
    """
    return num_runs if num_runs < 3 else 2 / math.pi * num_runs + 1 - 2 / math.pi - 0.04


def _loss_score(losses: LossLaw | None, place: tuple[int, int], least: float, *, at_most: bool) -> dict[str, Any]:
    """at_most: whether the loss still fell."""
    if losses is None:
        return {"least_loss": least, "predicted_loss": None}
    foretold, (low, high) = losses.loss(*place), losses.loss_range(*place)
    return {
        "least_loss": least,
        "predicted_loss": foretold,
        "predicted_loss_range": (low, high),
        "loss_error": None if at_most else foretold / least - 1,
        "loss_inside": low <= least if at_most else low <= least <= high,
    }


def tells_losses(held_out: Sequence[dict[str, Any]]) -> bool:
    """Whether the law of the loss did well enough at what was held out to be believed beyond it."""
    inside = [each["loss_inside"] for each in held_out if "loss_inside" in each]
    return bool(sum(inside) >= LEAST_INSIDE * len(inside))
