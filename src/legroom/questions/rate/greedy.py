"""`--method greedy`: a busy device first, then decades of rates, then multiples of the best one.

A published search for recurrent models that begins with the device's utilisation, to the letter: without a batch size
one epoch at each, and the first above 90 % of the best utilisation; there rates 1e-5, 1e-4 ... 1e-1, each trained
until its score stops gaining; from the best of them 2, 3 ... times that rate until the score falls. Here to be compared
with `auto` on the same job.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from legroom.errors import NothingMeasured
from legroom.logbook import Records
from legroom.questions.base import Recommendation
from legroom.questions.rate.answer import RateAnswer
from legroom.questions.rate.evidence import Point, Trunk
from legroom.questions.rate.records import RateQuestion, RunTrial, Trial, update_size
from legroom.questions.rate.width import plausible_rates, sensitivity
from legroom.session import Session

DECADES = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
PATIENCE = 3
"""Epochs without gain that end a run."""
SHARE = 0.9
"""Of the best utilisation, that the chosen size must have."""
NUM_SIZES = 6
MOST_MULTIPLES = 9
"""Beyond nine times the rate the next decade begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One run and what it came to."""

    request: RunTrial
    trial: Trial
    value: float
    """The best score or loss, so that less is better."""

    @property
    def rate(self) -> float:
        """Its learning rate."""
        return float(self.request.settings["learning_rate"])


def find(session: Session, question: RateQuestion, started: float) -> None:
    """Choose a size where none was named, then rates."""
    for place, size in enumerate(question.batch_sizes):
        session.progress(f"an epoch of batches of {size:,}", 0.02 + 0.2 * place / len(question.batch_sizes))
        session.ask(epoch_request(question, size))
    if question.batch_sizes:
        size = choose_size(epochs(session.records, question))[0]
        question = replace(question, settings={**question.settings, "batch_size": size, "accumulation_steps": 1})
    for place, rate in enumerate(DECADES):
        session.progress(f"rate {rate:g}", 0.2 + 0.1 * place)
        session.ask(rate_request(question, rate))
    best = min(tried(session.records, question), key=lambda each: each.value)
    for times in range(2, MOST_MULTIPLES + 1):
        if session.clock() - started > question.budget_seconds:
            break
        session.progress(f"rate {times * best.rate:g}", min(0.98, 0.7 + 0.03 * times))
        session.ask(rate_request(question, times * best.rate))
        if tried(session.records, question)[-1].value > min(each.value for each in tried(session.records, question)):
            break


def epoch_request(question: RateQuestion, size: int) -> RunTrial:
    """One epoch at a batch size."""
    settings = {**question.settings, "batch_size": size, "accumulation_steps": 1, "num_epochs": 1}
    return RunTrial(device=question.device, settings=settings, fraction=question.fraction)


def rate_request(question: RateQuestion, rate: float) -> RunTrial:
    """A run at a constant rate until its score stops gaining, or its part of the budget is over."""
    each = question.budget_seconds / (len(DECADES) + MOST_MULTIPLES / 2)
    settings = {**question.settings, "learning_rate": rate, "schedule": "constant"}
    return RunTrial(
        device=question.device,
        settings=settings,
        fraction=question.fraction,
        max_seconds=round(max(1.0, each), 1),
        patience=PATIENCE,
        watch=question.target_name,
    )


def epochs(records: Records, question: RateQuestion) -> dict[int, Trial]:
    """The epochs by their batch size."""
    return {
        size: entry.result
        for size in question.batch_sizes
        for entry in records.entries
        if entry.request == epoch_request(question, size)
    }


def choose_size(seen: dict[int, Trial]) -> tuple[int, int]:
    """The first size above 90 % of the best utilisation, and the first above 90 % of the best throughput."""
    shares = {size: trial.utilisation for size, trial in seen.items() if trial.utilisation is not None}
    fast = {size: trial.samples_per_second for size, trial in seen.items()}
    by_throughput = min(size for size, found in fast.items() if found > SHARE * max(fast.values()))
    if not shares:
        return by_throughput, by_throughput
    return min(size for size, found in shares.items() if found > SHARE * max(shares.values())), by_throughput


def tried(records: Records, question: RateQuestion) -> list[Tried]:
    """The runs at rates, in order."""
    found = []
    for entry in records.entries:
        request, trial = entry.request, entry.result
        if isinstance(request, RunTrial) and request.patience is not None and question.covers(request):
            values = [_value(each, question) for each in trial.evaluations]
            found.append(Tried(request=request, trial=trial, value=min(values, default=math.inf)))
    return found


def _value(evaluated: Any, question: RateQuestion) -> float:
    value = evaluated.loss if question.target_name == "loss" else evaluated.score
    return question.signed(value) if value is not None and math.isfinite(value) else math.inf


def as_trunk(each: Tried, question: RateQuestion) -> Trunk:
    """A run as its evaluations show it: what it had reached at each of them."""
    size = update_size(each.request.settings)
    points = [
        Point(to_step=e.step, num_steps=e.step, num_samples=e.step * size, value=_value(e, question))
        for e in each.trial.evaluations
    ]
    diverged = each.trial.num_steps if each.trial.stopped_because == "diverged" else None
    return Trunk(learning_rate=each.rate, batch_size=size, seed=question.seed, points=points, diverged_at=diverged)


def advise(records: Records, question: RateQuestion) -> RateAnswer:
    """The rate with the best score, and what it came to."""
    seen = epochs(records, question)
    sizes = choose_size(seen) if seen else None
    if sizes:
        question = replace(question, settings={**question.settings, "batch_size": sizes[0], "accumulation_steps": 1})
    runs = tried(records, question)
    if not any(math.isfinite(run.value) for run in runs):
        rates = f"from {min(run.rate for run in runs):g} to {max(run.rate for run in runs):g}"
        raise NothingMeasured(f"No run gave a {question.target_name} that is a number, at rates {rates}")
    best = min(runs, key=lambda run: run.value)
    trunks = [as_trunk(run, question) for run in runs if run.trial.evaluations]
    own = as_trunk(best, question)
    wanted = question.wanted if question.target_from == "given" and not math.isnan(question.target) else best.value
    steps, description = own.steps_to(wanted), records.description()
    num_steps = round(steps) if steps is not None else best.trial.num_steps
    span = plausible_rates(trunks, own)
    given = not math.isnan(question.target)
    value = question.target if given else question.signed(best.value)
    return RateAnswer(
        job=records.head.job,
        machine=records.head.machine,
        seconds=records.seconds(),
        notes=[*records.notes, *description.notes, *_notes(sizes, runs)],
        not_measured=["the critical batch size, and other seeds: this method looks at neither"],
        recommendations=[
            Recommendation(
                name="learning_rate",
                value=best.rate,
                range=span,
                because=f"its {question.target_name} came to {question.signed(best.value):.4g}, "
                f"the best of {len(runs)} rates",
                evidence=["trial"],
            )
        ],
        device=question.device,
        method=question.method,
        batch_size=question.update_size,
        learning_rate=best.rate,
        range=span,
        warmup_steps=int(question.settings["warmup_steps"]),
        cooldown_steps=0,
        schedule="constant",
        num_steps=num_steps,
        steps_range=(steps, steps),
        num_epochs=num_steps * question.update_size / max(1, description.num_samples or 1),
        target={
            "name": question.target_name,
            "value": value,
            "from": "given" if given else "reached",
            "range": None,
        },
        reached=steps is not None,
        best_value=question.signed(best.value),
        sensitivity=sensitivity(trunks, own),
        rule={"sgd": "linear", "adam": "sqrt"}[question.optimizer],
        critical_batch_size=None,
        critical_range=None,
        law={},
        num_trials=len(runs) + len(seen),
        num_samples=sum(run.trial.num_samples for run in runs) + sum(each.num_samples for each in seen.values()),
        baseline_steps=question.own_steps,
        step_seconds=question.update_size / best.trial.samples_per_second if best.trial.samples_per_second else None,
        curves=[
            {
                "name": "",
                "learning_rate": run.rate,
                "batch_size": question.update_size,
                "seed": question.seed,
                "num_steps": [each.step for each in run.trial.evaluations],
                "value": [
                    each.loss if question.target_name == "loss" else each.score for each in run.trial.evaluations
                ],
                "diverged_at": None,
            }
            for run in runs
        ],
        trials=[*_sizes(seen), *_rates(runs, question)],
        settings={**question.settings, "learning_rate": best.rate, "schedule": "constant"},
        baseline=dict(description.baseline),
    )


def _sizes(seen: dict[int, Trial]) -> list[dict[str, Any]]:
    return [
        {"batch_size": size, "utilisation": each.utilisation, "samples_per_second": each.samples_per_second}
        for size, each in seen.items()
    ]


def _rates(runs: Sequence[Tried], question: RateQuestion) -> list[dict[str, Any]]:
    return [
        {
            "learning_rate": run.rate,
            "value": question.signed(run.value) if math.isfinite(run.value) else None,
            "num_steps": run.trial.num_steps,
            "stopped_because": run.trial.stopped_because,
        }
        for run in runs
    ]


def _notes(sizes: tuple[int, int] | None, runs: Sequence[Tried]) -> list[str]:
    notes = []
    if sizes is not None:
        notes.append(
            f"{sizes[0]:,} is the first batch size above 90 % of the best utilisation; "
            f"by throughput it would be {sizes[1]:,}"
        )
    cut = [f"{run.rate:g}" for run in runs if run.trial.stopped_because == "budget"]
    if cut:
        notes.append(f"Runs at rates {', '.join(cut)} ended with their part of the budget, not by themselves")
    return notes
