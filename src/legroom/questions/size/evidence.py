"""What a logbook holds of trials at several sizes."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from legroom.logbook import Entry
from legroom.questions.size.curve import smooth
from legroom.questions.size.records import RATE_FACTORS, SizeQuestion, SizeTrained, Solver, TrainSize
from legroom.questions.size.trials import Trial

LEAST_EVALUATIONS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All trials of the question."""

    trials: Sequence[Trial]
    own_value: int | None = None
    """The job's own size where that sets the loss to reach."""

    def of(self, solver: Solver = "own") -> list[Trial]:
        """Trials with that optimizer, at the best of its rates, that were evaluated."""
        factor = self.rate_factor(solver)
        mine = [trial for trial in self.trials if trial.solver == solver and trial.curve is not None]
        return [trial for trial in mine if trial.rate_factor == factor]

    def rate_factor(self, solver: Solver) -> float:
        """On the usual rate, of the trial that came to the lowest loss where several were tried; else 1."""
        mine = [trial for trial in self.trials if trial.solver == solver and trial.curve is not None]
        places = {trial.place for trial in mine if trial.rate_factor != 1}
        first = min((trial.seed for trial in mine), default=0)
        tried = [trial for trial in mine if trial.place in places and trial.seed == first]
        return min(tried, key=lambda trial: trial.least_loss).rate_factor if tried else 1.0

    def at(self, value: int, fraction: float) -> list[Trial]:
        """Trials there, one a seed."""
        return [trial for trial in self.of() if trial.place == (value, fraction)]

    def runs(self, value: int, fraction: float) -> list[Trial]:
        """The same with those that diverged or failed, which reach nothing."""
        return [trial for trial in self.trials if trial.solver == "own" and trial.place == (value, fraction)]

    def step_seconds(self) -> dict[int, float]:
        """Of an update by value: the fastest trial, which others on the machine hindered least."""
        values = sorted({trial.value for trial in self.of()})
        return {
            value: min(trial.result.step_seconds for trial in self.of() if trial.value == value) for value in values
        }

    def peak_bytes(self) -> dict[int, int]:
        """Memory of a trial by value, the most of all."""
        values = sorted({trial.value for trial in self.of()})
        return {value: max(trial.result.peak_bytes for trial in self.of() if trial.value == value) for value in values}

    def judged_fraction(self) -> float:
        """The largest share of the data on which two sizes or more were trained: sizes are compared there.

        If the job's own size settled on some of those shares, it is the largest of them.
        """
        places = {trial.place for trial in self.of()}
        fractions = [fraction for _, fraction in places]
        several = {each for each in fractions if fractions.count(each) > 1}
        settled = {trial.fraction for trial in self.of() if trial.value == self.own_value and trial.counted < math.inf}
        return max(several & settled or several or {*fractions}, default=1.0)


def gather(entries: Iterable[Entry], question: SizeQuestion) -> Evidence:
    """The trials among the entries that belong to the question, the last of each."""
    found: dict[tuple[int, float, int, Solver, float], Trial] = {}
    for entry in entries:
        request, result = entry.request, entry.result
        if isinstance(request, TrainSize) and isinstance(result, SizeTrained):
            factor = _factor(request, question)
            if factor is not None:
                trial = _trial(request, result, question, factor)
                found[(trial.value, trial.fraction, trial.seed, trial.solver, factor)] = trial
    own = question.own_value if question.target_loss is None else None
    return Evidence(trials=_held_out(list(found.values()), question), own_value=own)


def _held_out(trials: Sequence[Trial], question: SizeQuestion) -> list[Trial]:
    """With the largest size that ran held out: of many sizes the budget may not last for the largest."""
    held = question.held_of({trial.value for trial in trials if trial.solver == "own" and trial.curve is not None})
    return [replace(trial, held_out=trial.held_out or trial.value == held) for trial in trials]


def _factor(request: TrainSize, question: SizeQuestion) -> float | None:
    """What its rate was multiplied by; None where it does not belong to the question."""
    more = int(request.settings["seed"]) - int(question.settings["seed"])
    if request.value not in question.values or request.fraction not in (*question.fractions, 1.0):
        return None
    place = request.value, request.fraction, more, request.max_seconds, request.solver
    factors = RATE_FACTORS if request.solver != "own" else (1.0,)
    return next((each for each in factors if request == question.trial(*place, each)), None)


def _trial(request: TrainSize, result: SizeTrained, question: SizeQuestion, factor: float) -> Trial:
    enough = len(result.steps) >= LEAST_EVALUATIONS and result.outcome not in ("diverged", "only_rose")
    return Trial(
        value=request.value,
        fraction=request.fraction,
        seed=int(request.settings["seed"]),
        solver=request.solver,
        rate_factor=factor,
        held_out=question.is_held_out(request.value, request.fraction),
        result=result,
        curve=smooth(result.steps, result.losses) if enough else None,
    )
