"""One trial as the question reads it: its curve, and what it counts for."""

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from legroom.laws.model_size import Count
from legroom.questions.size.curve import WITHIN, Curve
from legroom.questions.size.records import SizeTrained, Solver

Place = tuple[int, float]
"""Value and fraction."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trial:
    """One size, on one share of the data, with one seed."""

    value: int
    fraction: float
    seed: int
    solver: Solver
    rate_factor: float
    """On the usual rate of an optimizer that is not the job's own."""
    held_out: bool
    result: SizeTrained
    curve: Curve | None
    """None where it was evaluated too seldom, or learned nothing that could be followed."""

    @property
    def place(self) -> Place:
        """Value and fraction."""
        return self.value, self.fraction

    @property
    def at_least(self) -> bool:
        """Whether it ended before its minimum, so that more updates are needed than were counted."""
        return self.result.outcome != "settled"

    @property
    def still_fell(self) -> bool:
        """Whether its loss was never lower than at its end."""
        return self.curve is not None and self.curve.lowest_step == self.curve.last_step

    @property
    def steps(self) -> float | None:
        """Updates to within a hundredth of the minimum; of what was seen of it, where it had not settled."""
        return None if self.curve is None else self.curve.steps_within()

    @property
    def at_chance(self) -> bool:
        """Whether it scored no better than a model that learned nothing: its loss rests there, if anything."""
        return self.result.left_chance is False

    @property
    def counted(self) -> float:
        """The same of one that settled; of others infinite: nobody knows how many more it needs."""
        steps = self.steps
        return math.inf if steps is None or self.at_least or self.at_chance else steps

    @property
    def least_loss(self) -> float:
        """The lowest of its curve; infinite where it has none."""
        return math.inf if self.curve is None else self.curve.least_loss

    @property
    def cooled_curve(self) -> list[tuple[int, float]]:
        """Lengths of runs that cool down at their end, and what they come to."""
        return list(zip(self.result.cooled_steps, self.result.cooled_losses, strict=True))

    @property
    def cooled(self) -> tuple[int, float] | None:
        """Updates of a run that cools down to within a hundredth of the best such run, and the loss of that."""
        found = self.cooled_curve
        if not found:
            return None
        least = min(loss for _, loss in found)
        return next(step for step, loss in found if loss <= least * (1 + WITHIN)), least

    def count(self) -> Count | None:
        """As the law takes it."""
        steps = self.steps
        found = self.result
        if steps is None or (self.at_chance and not self.at_least):
            return None
        return Count(found.num_parameters, found.num_samples, steps, self.at_least)


def middle(values: Iterable[float]) -> float:
    """The median of ln values.

    >>> round(middle([10, 1000]))
    100
    """
    return math.exp(statistics.median(map(math.log, values)))
