"""How the laws did at what was held out, and how optimizers compare by theirs."""

import math
from collections.abc import Sequence
from typing import Any

from legroom.errors import NothingMeasured
from legroom.laws.model_size import SizeLaw
from legroom.questions.size.evidence import Evidence
from legroom.questions.size.fits import fit_steps
from legroom.questions.size.loss_law import LossLaw
from legroom.questions.size.records import SizeQuestion, Solver
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
    low, high = law.steps_range(*place, num_runs=len(trials))
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


def compare_solvers(evidence: Evidence, question: SizeQuestion) -> tuple[list[dict[str, Any]], dict[str, bool | None]]:
    """The law of each optimizer on the same sizes and data, and what they say of Adam against SGD."""
    if not question.compares_solvers:
        return [], {}
    names: tuple[Solver, ...] = ("sgd", "adam")
    found = {name: _solver(evidence, question, name) for name in names}
    listed = [each for each in found.values() if each]
    sgd, adam = found["sgd"], found["adam"]
    if not sgd or not adam:
        return listed, {"adam_needs_fewer": None, "adam_is_steeper": None}
    return listed, {
        "adam_needs_fewer": _below(adam["steps_range"], sgd["steps_range"]),
        "adam_is_steeper": _below(sgd["k2_range"], adam["k2_range"]),
    }


def _below(low: tuple[float, float], high: tuple[float, float]) -> bool | None:
    """Whether one range lies below the other; None where they overlap."""
    return True if low[1] < high[0] else False if high[1] < low[0] else None


def _solver(evidence: Evidence, question: SizeQuestion, name: Solver) -> dict[str, Any]:
    solver: Solver = "own" if name == question.own_solver else name
    trials = [trial for trial in evidence.of(solver) if not trial.held_out]
    try:
        law = fit_steps(trials)
    except NothingMeasured:
        return {}
    sizes, samples = ([getattr(trial.result, what) for trial in trials] for what in ("num_parameters", "num_samples"))
    place = middle(sizes), middle(samples)
    parts = ("a", "a_range", "k1", "k1_range", "k2", "k2_range", "b", "b_range")
    return {
        "solver": name,
        "learning_rate": question.rate_of(solver, evidence.rate_factor(solver)),
        "is_own": solver == "own",
        **{part: getattr(law, part) for part in parts},
        "steps": law.steps(*place),
        "steps_range": law.steps_range(*place, num_runs=None),
        "num_trials": len(trials),
    }
