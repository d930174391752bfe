"""What a logbook holds of trials at several sizes, and the laws through them."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from legroom.errors import NothingMeasured
from legroom.laws.model_size import LEAST_POINTS, Count, SizeLaw, fit_size
from legroom.logbook import Entry
from legroom.questions.size.curve import WITHIN, Curve, smooth
from legroom.questions.size.loss_law import LossLaw, fit_loss
from legroom.questions.size.records import SizeQuestion, SizeTrained, Solver, TrainSize

LEAST_EVALUATIONS = 3
Place = tuple[int, float]
"""Value and fraction."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trial:
    """One size, on one share of the data, with one seed."""

    value: int
    fraction: float
    seed: int
    solver: Solver
    held_out: bool
    result: SizeTrained
    curve: Curve | None
    """None where it was evaluated too seldom."""

    @property
    def place(self) -> Place:
        """Value and fraction."""
        return self.value, self.fraction

    @property
    def at_least(self) -> bool:
        """Whether it ended before its minimum, so that more updates are needed than were counted."""
        return self.result.outcome != "settled"

    @property
    def steps(self) -> float | None:
        """Updates to within a hundredth of the minimum; of what was seen of it, where it had not settled."""
        return None if self.curve is None else self.curve.steps_within()

    @property
    def cooled(self) -> tuple[float, float] | None:
        """Updates of a run that cools down to within a hundredth of the best such run, and the loss of that."""
        found = list(zip(self.result.cooled_steps, self.result.cooled_losses, strict=True))
        if not found:
            return None
        least = min(loss for _, loss in found)
        return next(step for step, loss in found if loss <= least * (1 + WITHIN)), least

    def count(self) -> Count | None:
        """As the law takes it."""
        steps = self.steps
        found = self.result
        return None if steps is None else Count(found.num_parameters, found.num_samples, steps, self.at_least)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All trials of the question."""

    trials: Sequence[Trial]

    def of(self, solver: Solver = "own") -> list[Trial]:
        """Trials with that optimizer that were evaluated."""
        return [trial for trial in self.trials if trial.solver == solver and trial.curve is not None]

    def at(self, value: int, fraction: float) -> list[Trial]:
        """Trials there, one a seed."""
        return [trial for trial in self.of() if trial.place == (value, fraction)]

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
        """The largest share of the data on which two sizes or more were trained: sizes are compared there."""
        places = {trial.place for trial in self.of()}
        fractions = [fraction for _, fraction in places]
        return max((each for each in fractions if fractions.count(each) > 1), default=max(fractions, default=1.0))


def gather(entries: Iterable[Entry], question: SizeQuestion) -> Evidence:
    """The trials among the entries that belong to the question, the last of each."""
    found: dict[tuple[int, float, int, Solver], Trial] = {}
    for entry in entries:
        request, result = entry.request, entry.result
        if isinstance(request, TrainSize) and isinstance(result, SizeTrained) and _belongs(request, question):
            trial = _trial(request, result, question)
            found[(trial.value, trial.fraction, trial.seed, trial.solver)] = trial
    return Evidence(trials=list(found.values()))


def _belongs(request: TrainSize, question: SizeQuestion) -> bool:
    more = int(request.settings["seed"]) - int(question.settings["seed"])
    asked = question.trial(request.value, request.fraction, more, request.max_seconds, request.solver)
    fractions = (*question.fractions, 1.0)
    return request == asked and request.value in question.values and request.fraction in fractions


def _trial(request: TrainSize, result: SizeTrained, question: SizeQuestion) -> Trial:
    enough = len(result.steps) >= LEAST_EVALUATIONS and result.outcome != "diverged"
    return Trial(
        value=request.value,
        fraction=request.fraction,
        seed=int(request.settings["seed"]),
        solver=request.solver,
        held_out=question.is_held_out(request.value, request.fraction),
        result=result,
        curve=smooth(result.steps, result.losses) if enough else None,
    )


def fit_steps(trials: Sequence[Trial]) -> SizeLaw:
    """The law of updates through the trials."""
    counts = [count for trial in trials if (count := trial.count()) is not None]
    places = {count[:2] for count in counts if not count.at_least}
    if len(places) < LEAST_POINTS:
        raise NothingMeasured(_too_few(len(places), trials))
    return fit_size(counts)


def fit_losses(trials: Sequence[Trial]) -> LossLaw | None:
    """The law of the least loss through trials that settled; None where they are too few."""
    losses = [
        (trial.result.num_parameters, trial.result.num_samples, trial.curve.least_loss)
        for trial in trials
        if trial.curve is not None and not trial.at_least
    ]
    return fit_loss(losses) if len({each[:2] for each in losses}) >= LEAST_POINTS else None


def _too_few(num_places: int, trials: Sequence[Trial]) -> str:
    seen = f"{num_places} of {len({trial.place for trial in trials})} sizes and shares of data"
    outcomes = {trial.result.outcome for trial in trials}
    wild = " Some trials diverged: give the job a lower rate, or clip the gradient's norm." * ("diverged" in outcomes)
    return (
        f"Runs settled at their least validation loss at {seen}, and the law needs {LEAST_POINTS}.{wild} "
        "Raise --budget, or name smaller --widths and --fractions"
    )


def middle(values: Iterable[float]) -> float:
    """The median of ln values.

    >>> round(middle([10, 1000]))
    100
    """
    return math.exp(statistics.median(map(math.log, values)))
