"""How optimizers compare by the law of updates of each."""

from collections.abc import Mapping, Sequence
from typing import Any

from legroom.errors import UsageError
from legroom.questions.size.evidence import Evidence
from legroom.questions.size.fits import fit_steps
from legroom.questions.size.records import SizeQuestion, Solver
from legroom.questions.size.trials import Trial, middle

NAMES: tuple[Solver, ...] = ("sgd", "adam")


def compare_solvers(evidence: Evidence, question: SizeQuestion) -> tuple[list[dict[str, Any]], dict[str, bool | None]]:
    """The law of each optimizer on the same sizes and data, and what they say of Adam against SGD."""
    if not question.compares_solvers:
        return [], {}
    trials = {name: _inside(evidence, question, name) for name in NAMES}
    found = {name: _solver(evidence, question, name, trials[name], _shared(trials)) for name in NAMES}
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


def _as_run(question: SizeQuestion, name: Solver) -> Solver:
    """The job's own optimizer ran as it is."""
    return "own" if name == question.own_solver else name


def _inside(evidence: Evidence, question: SizeQuestion, name: Solver) -> list[Trial]:
    """Trials that the optimizer's law rests on."""
    return [trial for trial in evidence.of(_as_run(question, name)) if not trial.held_out and trial.count()]


def _shared(trials: Mapping[Solver, Sequence[Trial]]) -> tuple[float, float]:
    """The middle of the sizes and data that each ran at: a budget may have ended at other places for each."""
    everywhere = {_where(trial) for each in trials.values() for trial in each}
    common = set.intersection(*({_where(trial) for trial in each} for each in trials.values())) or everywhere
    sizes, samples = zip(*(common or {(1, 1)}), strict=True)
    return middle(sizes), middle(samples)


def _where(trial: Trial) -> tuple[int, int]:
    return trial.result.num_parameters, trial.result.num_samples


def _solver(
    evidence: Evidence, question: SizeQuestion, name: Solver, trials: Sequence[Trial], place: tuple[float, float]
) -> dict[str, Any]:
    try:
        law = fit_steps(trials)
    except UsageError:
        return {}
    solver = _as_run(question, name)
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
