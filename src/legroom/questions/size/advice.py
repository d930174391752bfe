"""Which size to take, and how updates, loss, time and memory move with it, from the records."""

from collections.abc import Sequence
from typing import Any

from legroom.laws.model_size import SizeLaw
from legroom.logbook import Records
from legroom.questions.base import Recommendation
from legroom.questions.size import choice, economy, told, wording
from legroom.questions.size.answer import SizeAnswer
from legroom.questions.size.enough import check_settled
from legroom.questions.size.evidence import gather
from legroom.questions.size.fits import fit_losses, fit_steps, varied
from legroom.questions.size.loss_law import LossLaw
from legroom.questions.size.plateau import find_plateau
from legroom.questions.size.records import SizeQuestion
from legroom.questions.size.scores import score_held_out, tells_losses
from legroom.questions.size.solvers import compare_solvers
from legroom.questions.size.trials import Trial


def advise(records: Records, question: SizeQuestion) -> SizeAnswer:
    """The answer that the entries hold."""
    evidence = gather(records.entries, question)
    own = evidence.of()
    inside = [trial for trial in evidence.trials if trial.solver == "own" and not trial.held_out]
    check_settled(inside, question, records.head.variables)
    law, losses = fit_steps(inside), fit_losses(inside)
    held_out = score_held_out(law, losses, evidence)
    everything, all_losses, pace = fit_steps(own), fit_losses(own), economy.pace_law(evidence, question)
    believed = all_losses if tells_losses(held_out) else None
    laws = economy.Laws(steps=everything, losses=believed, pace=pace, varied=varied(own))
    plateau = find_plateau(everything, question)
    target = choice.wanted_loss(evidence, question)
    times = choice.times_to(evidence, question, target["loss"])
    best, near = choice.soonest(times)
    place = _place(question, times, best)
    solvers, claims = compare_solvers(evidence, question)
    seen: dict[str, Any] = {"target": target, "times": times, "held_out": held_out, "solvers": solvers}
    recommended = best["value"] if best else None
    return SizeAnswer(
        job=records.head.job,
        machine=records.head.machine,
        seconds=records.seconds(),
        notes=[*records.notes, *records.description().notes, *wording.notes(evidence, question, seen)],
        not_measured=wording.unknown(law, plateau, held_out, evidence, question),
        recommendations=[_recommend(question, best, near, times, target["loss"])] if best else [],
        device=question.device,
        vary=question.vary,
        rate_rule=question.rate_rule,
        batch_size=int(question.settings["batch_size"]),
        **_numbers(law),
        holds_one=wording.holds_one(law),
        falls_with_size=_falls(everything),
        laws=told.tell_laws(everything, all_losses, pace),
        plateau=plateau.value,
        plateau_range=(plateau.low, plateau.high),
        plateau_passed=plateau.is_passed,
        points=[_point(trial, law, losses, question) for trial in evidence.trials],
        recommended_width=recommended if question.vary == "width" else None,
        recommended_depth=recommended if question.vary == "depth" else None,
        own_value=question.own_value,
        judged_fraction=evidence.judged_fraction(),
        within=choice.best_within(evidence, question, times, best),
        next_model=economy.next_doubling(laws, place, of_data=False),
        next_data=economy.next_doubling(laws, place, of_data=True),
        memory=economy.memory_by_size(evidence, question),
        fill=economy.fill_by_size(evidence, question, pace),
        solver_claims=claims,
        num_trials=len(evidence.trials),
        lines=told.law_lines(law, losses, evidence, question),
        pace_line=told.pace_line(pace, question),
        settings=dict(question.settings),
        **seen,
    )


def _numbers(law: SizeLaw) -> dict[str, Any]:
    """Of the fit that is scored; those whose range is wider than themselves are None."""
    found: dict[str, Any] = {}
    for name in ("a", "k1", "k2", "b"):
        span = getattr(law, f"{name}_range")
        found |= {name: wording.if_known(getattr(law, name), span), f"{name}_range": span}
    return found


def _falls(law: SizeLaw) -> bool | None:
    low, high = law.k2_range
    return True if low > 0 else False if high < 0 else None


def _place(question: SizeQuestion, times: Sequence[dict[str, Any]], best: dict[str, Any] | None) -> tuple[float, float]:
    """From where the next doubling is told: the size recommended, else the largest compared, on the whole data."""
    largest = max((each["num_parameters"] for each in times), default=max(question.num_parameters))
    return (best["num_parameters"] if best else largest), question.num_samples


def _recommend(
    question: SizeQuestion,
    best: dict[str, Any],
    near: tuple[int, int] | None,
    times: Sequence[dict[str, Any]],
    loss: float,
) -> Recommendation:
    alone = sum(each["num_reached"] > 0 for each in times) == 1
    how = f"it alone of {len(times)} reaches" if alone else "it is the soonest to reach"
    runs = f"; {best['num_reached']} of its {best['num_seeds']} runs did" if best["num_seeds"] > 1 else ""
    because = f"{how} a loss of {loss:.4g} at a constant rate, in {best['steps']:,.0f} updates{runs}"
    return Recommendation(
        name=question.vary, value=best["value"], range=near, because=because, evidence=["size_trained"]
    )


def _point(trial: Trial, law: SizeLaw, losses: LossLaw | None, question: SizeQuestion) -> dict[str, Any]:
    """A trial as scripts and figures read it."""
    found, curve, cooled = trial.result, trial.curve, trial.cooled
    place = found.num_parameters, found.num_samples
    foretold = curve is not None and trial.solver == "own"
    return {
        question.vary: trial.value,
        "fraction": trial.fraction,
        "seed": trial.seed,
        "solver": trial.solver,
        "learning_rate": question.rate_of(trial.solver, trial.rate_factor),
        "num_parameters": found.num_parameters,
        "num_samples": found.num_samples,
        "outcome": found.outcome,
        "steps": trial.steps,
        "at_least": trial.at_least,
        "least_loss": curve.least_loss if curve else None,
        "cooled_steps": cooled[0] if cooled else None,
        "cooled_loss": cooled[1] if cooled else None,
        "step_seconds": found.step_seconds,
        "peak_bytes": found.peak_bytes,
        "held_out": trial.held_out,
        "predicted_steps": law.steps(*place) if foretold else None,
        "predicted_range": law.steps_range(*place) if foretold else None,
        "predicted_loss": losses.loss(*place) if foretold and losses else None,
        "curve": {"steps": found.steps, "loss": found.losses},
        "cooled_curve": {"steps": found.cooled_steps, "loss": found.cooled_losses},
        "seconds": found.seconds,
    }
