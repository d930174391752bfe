"""How the law did at what was held out, and how optimizers compare by it."""

from collections.abc import Sequence
from typing import Any

from legroom.errors import NothingMeasured
from legroom.laws.model_size import SizeLaw
from legroom.questions.size.evidence import Evidence, Trial, fit_steps, middle
from legroom.questions.size.loss_law import LossLaw
from legroom.questions.size.records import SizeQuestion, Solver


def score_held_out(law: SizeLaw, losses: LossLaw | None, evidence: Evidence) -> list[dict[str, Any]]:
    """At each place held out: updates foretold and measured, in the middle of the seeds that settled."""
    places = sorted({trial.place for trial in evidence.of() if trial.held_out})
    return [_score(law, losses, evidence.at(*place)) for place in places]


def _score(law: SizeLaw, losses: LossLaw | None, trials: Sequence[Trial]) -> dict[str, Any]:
    settled = [trial for trial in trials if not trial.at_least]
    counted = settled or trials
    place = counted[0].result.num_parameters, counted[0].result.num_samples
    steps = middle(trial.steps for trial in counted if trial.steps is not None)
    low, high = law.steps_range(*place, num_runs=len(counted))
    foretold = law.steps(*place)
    return {
        "value": counted[0].value,
        "fraction": counted[0].fraction,
        "num_seeds": len(counted),
        "steps": steps,
        "at_least": not settled,
        "predicted_steps": foretold,
        "predicted_range": (low, high),
        "error": foretold / steps - 1 if settled else None,
        "inside": low <= steps <= high if settled else steps <= high,
        "least_loss": middle(trial.curve.least_loss for trial in counted if trial.curve),
        "predicted_loss": None if losses is None else losses.loss(*place),
    }


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
    trials = [trial for trial in evidence.of("own" if name == question.own_solver else name) if not trial.held_out]
    try:
        law = fit_steps(trials)
    except NothingMeasured:
        return {}
    sizes, samples = ([getattr(trial.result, what) for trial in trials] for what in ("num_parameters", "num_samples"))
    place = middle(sizes), middle(samples)
    return {
        "solver": name,
        "a": law.a,
        **{part: getattr(law, part) for part in ("k1", "k1_range", "k2", "k2_range", "b", "b_range")},
        "steps": law.steps(*place),
        "steps_range": law.steps_range(*place, num_runs=None),
        "num_trials": len(trials),
    }
