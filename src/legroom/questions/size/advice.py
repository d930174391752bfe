"""Which size to take, and how updates, loss, time and memory move with it, from the records."""

import math
from collections.abc import Sequence
from typing import Any

from legroom.laws.model_size import SizeLaw
from legroom.logbook import Records
from legroom.questions.base import Recommendation
from legroom.questions.size import choice, economy, wording
from legroom.questions.size.answer import Range, SizeAnswer
from legroom.questions.size.evidence import Trial, fit_losses, fit_steps, gather
from legroom.questions.size.loss_law import LossLaw
from legroom.questions.size.records import SizeQuestion
from legroom.questions.size.scores import compare_solvers, score_held_out


def advise(records: Records, question: SizeQuestion) -> SizeAnswer:
    """The answer that the entries hold."""
    evidence = gather(records.entries, question)
    own = evidence.of()
    inside = [trial for trial in evidence.trials if trial.solver == "own" and not trial.held_out]
    law, losses = fit_steps(inside), fit_losses(inside)
    everything, all_losses, pace = fit_steps(own), fit_losses(own), economy.pace_law(evidence, question)
    wanted, source = choice.wanted_loss(evidence, question)
    times = choice.times_to(evidence, question, wanted)
    best, near = choice.soonest(times)
    place = _place(question, best)
    held_out = score_held_out(law, losses, evidence)
    solvers, claims = compare_solvers(evidence, question)
    told: dict[str, Any] = {"target": {"loss": wanted, "from": source}, "times": times, "held_out": held_out}
    recommended = best["value"] if best else None
    return SizeAnswer(
        job=records.head.job,
        machine=records.head.machine,
        seconds=records.seconds(),
        notes=[*records.notes, *records.description().notes, *wording.notes(evidence, question, told)],
        not_measured=wording.unknown(law, evidence, question),
        recommendations=[_recommend(question, best, near, wanted)] if best and wanted is not None else [],
        device=question.device,
        vary=question.vary,
        rate_rule=question.rate_rule,
        batch_size=int(question.settings["batch_size"]),
        k1=wording.if_known(law.k1, law.k1_range),
        k1_range=law.k1_range,
        k2=wording.if_known(law.k2, law.k2_range),
        k2_range=law.k2_range,
        a=law.a,
        b=law.b,
        b_range=law.b_range,
        holds_one={name: low <= 1 <= high for name, (low, high) in (("k1", law.k1_range), ("k2", law.k2_range))},
        plateau=wording.told_plateau(law, question.num_samples),
        plateau_range=_ends(law.plateau_range(question.num_samples)),
        points=[_point(trial, law, losses, question) for trial in evidence.trials],
        recommended_width=recommended if question.vary == "width" else None,
        recommended_depth=recommended if question.vary == "depth" else None,
        own_value=question.own_value,
        judged_fraction=evidence.judged_fraction(),
        within=choice.best_within(evidence, question, times, best),
        next_model=economy.next_doubling(everything, all_losses, pace, place, of_data=False),
        next_data=economy.next_doubling(everything, all_losses, pace, place, of_data=True),
        memory=economy.memory_by_size(evidence, question),
        fill=economy.fill_by_size(evidence, question, pace),
        solvers=solvers,
        solver_claims=claims,
        num_trials=len(evidence.trials),
        lines=economy.law_lines(law, evidence, question),
        settings=dict(question.settings),
        **told,
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _ends(span: Sequence[float]) -> Range:
    low, high = map(_finite, span)
    return low, high


def _place(question: SizeQuestion, best: dict[str, Any] | None) -> tuple[float, float]:
    """From where the next doubling is told: the size recommended, else the largest, on the whole data."""
    return (best["num_parameters"] if best else max(question.num_parameters)), question.num_samples


def _recommend(
    question: SizeQuestion, best: dict[str, Any], near: tuple[int, int] | None, loss: float | None
) -> Recommendation:
    because = f"it reaches a loss of {loss:.4g} soonest, in {best['steps']:,.0f} updates"
    return Recommendation(
        name=question.vary, value=best["value"], range=near, because=because, evidence=["size_trained"]
    )


def _point(trial: Trial, law: SizeLaw, losses: LossLaw | None, question: SizeQuestion) -> dict[str, Any]:
    """A trial as scripts and figures read it."""
    found, curve, cooled = trial.result, trial.curve, trial.cooled
    place = found.num_parameters, found.num_samples
    told = curve is not None and trial.solver == "own"
    return {
        question.vary: trial.value,
        "fraction": trial.fraction,
        "seed": trial.seed,
        "solver": trial.solver,
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
        "predicted_steps": law.steps(*place) if told else None,
        "predicted_range": law.steps_range(*place) if told else None,
        "predicted_loss": losses.loss(*place) if told and losses else None,
        "curve": {"steps": found.steps, "loss": found.losses},
        "seconds": found.seconds,
    }
