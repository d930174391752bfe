"""`--method greedy`: a busy device first, then decades of rates, then multiples of the best one.

A published search for recurrent models that begins with the device's utilisation, to the letter: without a batch size
one epoch at each, and the first above 90 % of the best utilisation; there rates 1e-5, 1e-4 ... 1e-1, each trained
until its score stops gaining; from the best of them 2, 3 ... times that rate until the score falls. Here to be compared
with `auto` on the same job.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from legroom.errors import NothingMeasured
from legroom.logbook import Records
from legroom.questions.rate.answer import RateAnswer
from legroom.questions.rate.evidence import Point, Trunk
from legroom.questions.rate.records import RateQuestion, RunTrial, Trial, update_size
from legroom.questions.rate.telling import curve_of, finite, recommend, tell
from legroom.questions.rate.width import plausible_rates, sensitivity
from legroom.session import Session

DECADES = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
PATIENCE = 3
"""Epochs without gain that end a run."""
SHARE = 0.9
"""Of the best utilisation, that the chosen size must have."""
NUM_SIZES = 6
EPOCHS_SHARE = 0.3
"""Of the budget, that the epochs may take together."""
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
        if place and session.clock() - started > EPOCHS_SHARE * question.budget_seconds:
            break
        session.progress(f"an epoch of batches of {size:,}", 0.02 + 0.2 * place / len(question.batch_sizes))
        session.ask(epoch_request(question, size))
    if question.batch_sizes:
        question = at_size(question, choose_size(epochs(session.records, question))[0])
    for place, rate in enumerate(DECADES):
        if place and session.clock() - started > question.budget_seconds:
            break
        session.progress(f"rate {rate:g}", 0.2 + 0.1 * place)
        session.ask(rate_request(question, rate))
    best = min(tried(session.records, question), key=lambda each: each.value)
    if not math.isfinite(best.value):
        return  # of a rate that gave no number, no multiple is better
    for times in range(2, MOST_MULTIPLES + 1):
        if session.clock() - started > question.budget_seconds:
            break
        session.progress(f"rate {times * best.rate:g}", min(0.98, 0.7 + 0.03 * times))
        session.ask(rate_request(question, times * best.rate))
        if tried(session.records, question)[-1].value > min(each.value for each in tried(session.records, question)):
            break


def at_size(question: RateQuestion, size: int) -> RateQuestion:
    """The question at another batch size, passed whole."""
    own_steps = max(1, round(question.own_steps * question.update_size / size))
    settings = {**question.settings, "batch_size": size, "accumulation_steps": 1}
    return replace(question, settings=settings, own_steps=own_steps)


def epoch_request(question: RateQuestion, size: int) -> RunTrial:
    """One epoch at a batch size, or as much of it as its part of the budget lasts for."""
    settings = {**at_size(question, size).settings, "num_epochs": 1}
    limit = round(max(1.0, EPOCHS_SHARE * question.budget_seconds / NUM_SIZES), 1)
    return RunTrial(device=question.device, settings=settings, fraction=question.fraction, max_seconds=limit)


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
    question = question if sizes is None else at_size(question, sizes[0])
    runs = tried(records, question)
    if len(runs) < 2 or not any(math.isfinite(run.value) for run in runs):
        raise NothingMeasured(_why_nothing(runs, question))
    best = min(runs, key=lambda run: run.value)
    trunks, own = [as_trunk(run, question) for run in runs], as_trunk(best, question)
    known = [trunk for trunk in trunks if trunk.points]
    if math.isnan(question.target):
        question = replace(question, target=question.signed(best.value), target_from="reached")
    steps = own.steps_to(question.wanted)
    trials = [*(run.trial for run in runs), *seen.values()]
    because = f"its {question.target_name} came to {question.signed(best.value):.4g}, the best of {len(runs)} rates"
    return tell(
        records,
        question,
        recommend(best.rate, plausible_rates(known, own), because, "trial"),
        notes=_notes(sizes, runs, seen, question),
        not_measured=["the critical batch size, and other seeds: this method looks at neither"],
        warmup_steps=int(question.settings["warmup_steps"]),
        cooldown_steps=0,
        schedule="constant",
        num_steps=round(steps) if steps is not None else best.trial.num_steps,
        steps_range=(steps, steps),
        reached=steps is not None,
        best_value=question.signed(best.value),
        sensitivity=sensitivity(known, own),
        num_trials=len(trials),
        num_samples=sum(trial.num_samples for trial in trials),
        step_seconds=question.update_size / best.trial.samples_per_second if best.trial.samples_per_second else None,
        curves=[curve_of(trunk, question) for trunk in trunks],
        trials=[*_sizes(seen), *_rates(runs, question)],
        settings={"schedule": "constant"},
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
            "value": finite(question.signed(run.value)),
            "num_steps": run.trial.num_steps,
            "stopped_because": run.trial.stopped_because,
        }
        for run in runs
    ]


def _why_nothing(runs: Sequence[Tried], question: RateQuestion) -> str:
    """Values that are no numbers, or a budget that ended before there was one."""
    if not any(run.trial.evaluations for run in runs) and any(_is_cut(run.trial) for run in runs):
        return f"No run was evaluated before its part of the budget was over: {_epoch(runs, question)}. Raise --budget"
    if len(runs) < 2:
        return f"The budget lasted for one rate alone, which is no choice: {_epoch(runs, question)}. Raise --budget"
    rates = f"from {min(run.rate for run in runs):g} to {max(run.rate for run in runs):g}"
    return f"No run gave a {question.target_name} that is a number, at rates {rates}"


def _is_cut(trial: Trial) -> bool:
    return trial.stopped_because == "budget"


def _epoch(runs: Sequence[Tried], question: RateQuestion) -> str:
    """What an epoch takes at the pace of the runs."""
    pace = max((run.trial.num_steps / run.trial.seconds for run in runs if run.trial.seconds), default=0.0)
    epoch = question.own_steps / int(question.settings["num_epochs"])
    return f"an epoch takes {epoch / pace:,.1f} s" if pace else "not even an update was made"


def _notes(
    sizes: tuple[int, int] | None, runs: Sequence[Tried], seen: Mapping[int, Trial], question: RateQuestion
) -> list[str]:
    notes = []
    if sizes is not None:
        notes.append(
            f"{sizes[0]:,} is the first batch size above 90 % of the best utilisation; "
            f"by throughput it would be {sizes[1]:,}"
        )
    short = [f"{size:,}" for size, trial in seen.items() if _is_cut(trial)]
    if short:
        notes.append(f"Epochs at batches of {', '.join(short)} ended with their part of the budget")
    cut = [f"{run.rate:g}" for run in runs if _is_cut(run.trial)]
    if cut:
        ended = "ended with their part of the budget, not by themselves"
        notes.append(f"Runs at rates {', '.join(cut)} {ended}: {_epoch(runs, question)}")
    left_out = [f"{rate:g}" for rate in DECADES[len(runs) :]]
    if left_out:
        notes.append(f"The budget was over before rates {', '.join(left_out)} were tried. Raise --budget")
    return notes
