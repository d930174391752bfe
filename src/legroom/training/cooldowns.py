"""When a run at a constant rate should cool down: what earlier cooldowns gained, and how the run falls by itself.

A cooldown turns what was trained so far into what a run of that length would have given. Tried too early, it misses
the target and its updates are lost; tried too late, the run is longer than it had to be. At looks, spaced evenly in
ln(updates), the validation error of the run itself is known. What a cooldown takes off it is known from those made
before, the first of which are short and cheap. Errors are compared as logarithms, because a cooldown takes off a share:
from 95 % right to 97 % are two fifths of the errors, and so it will be at 98 %.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from legroom.training.schedule_text import read_schedule

COOLING = "stable:cooldown=0.1"
"""Of a run that names no cooldown. A tenth loses little on the usual fifth of it, and a miss costs half as much."""
DEFAULT_SHARE = 0.2
"""Of the schedule `stable` where it names none."""
SPACING = 0.05
"""Between looks, as a share of the updates so far."""
FIRST_STEPS = 16
"""Updates before the first cooldown, at least, and after twice the warm-up."""
STALE = 3.0
"""A cooldown from so many times earlier says too little of what one would take off now."""
CLOSEST = 1.25
"""The next after one that missed comes after so many times its updates, at least."""
WASTE = 0.15
"""Share of the updates so far that cooldowns which missed may have cost before another is tried."""
WINDOW = 2.0
"""The run's own error is smoothed over looks back to its updates divided by this."""
LEAST_ERROR = 1e-4
"""Errors below count as this: of a perfect score there is no logarithm."""

Point = tuple[int, float]
"""Updates at the constant rate, and ln of the error then, or after the cooldown from there."""


def cooldown_share(schedule: str) -> float:
    """Of the run that its cooldown takes, by the text of a schedule `stable`.

    >>> cooldown_share("stable"), cooldown_share("stable:cooldown=0.1,shape=sqrt")
    (0.2, 0.1)
    """
    name, values = read_schedule(schedule)
    assert name == "stable", f"only the schedule stable has a cooldown, and this is {name}"
    return values.get("cooldown", (DEFAULT_SHARE,))[0]


def whole_length(step: int, share: float) -> int:
    """Updates of a run whose cooldown begins after `step` of them and takes that share of all.

    >>> whole_length(80, 0.2), whole_length(80, 0.0)
    (100, 81)
    """
    return max(step + 1, round(step / (1 - share))) if share < 1 else step + 1


def error_of(value: float | None, *, goal: str, target: float) -> float:
    """The logarithm of the error, lower is better; a plain number where there is no logarithm to take.

    >>> round(error_of(0.98, goal="max", target=0.97), 3), round(error_of(2.0, goal="min", target=1.5), 3)
    (-3.912, 0.693)
    >>> error_of(21.0, goal="max", target=30.0), error_of(None, goal="min", target=1.0)
    (-21.0, inf)
    """
    if value is None:
        return math.inf
    if goal == "max" and 0 < target <= 1:
        return math.log(max(1 - value, LEAST_ERROR))
    if goal == "min" and target > 0:
        return math.log(max(value, LEAST_ERROR * target))
    return -value if goal == "max" else value


@dataclass(slots=True, kw_only=True)
class Outlook:
    """What is known of a run at a constant rate and of its cooldowns, and whether another is worth it now."""

    target: float
    """As `error_of` gives it."""
    first_step: int = FIRST_STEPS
    trunk: list[Point] = field(default_factory=list)
    cooled: list[Point] = field(default_factory=list)
    """Of cooldowns that missed."""
    num_wasted: int = 0
    """Updates of those."""

    def is_worth(self, step: int) -> bool:
        """Whether to try a cooldown after `step`, the last look."""
        if not self.cooled:
            return step >= self.first_step
        last = self.cooled[-1][0]
        if step < CLOSEST * last or self.num_wasted > WASTE * step:
            return False
        return step >= STALE * last or self.forecast(step) <= self.target

    def forecast(self, step: int) -> float:
        """The error after a cooldown from there, by whichever of two views is more hopeful.

        One is the run's own error, less what the last cooldowns took off. It fails where the run only jitters at its
        rate while cooldowns still gain; then a line through the last cooldowns sees more.
        """
        known = [(at, error) for at, error in self.cooled if math.isfinite(error)]
        if not known:
            return math.inf
        gains = [error - fitted(self.trunk, at) for at, error in known[-2:]]
        by_trunk = fitted(self.trunk, step) + sum(gains) / len(gains)
        return min(by_trunk, line_at(known[-3:], step)) if len(known) > 1 else by_trunk


def fitted(points: Sequence[Point], step: float) -> float:
    """The run's error at a step: a line in ln(updates) through its looks around there, which takes out their noise.

    >>> round(fitted([(step, 1 - math.log(step)) for step in (100, 120, 150, 180, 200)], 160), 3) == round(
    ...     1 - math.log(160), 3)
    True
    """
    near = [(at, error) for at, error in points if step / WINDOW <= at <= step * WINDOW and math.isfinite(error)]
    if len(near) < 3:
        return sum(error for _, error in near) / len(near) if near else math.inf
    return line_at(near, step)


def line_at(points: Sequence[Point], step: float) -> float:
    """The least-squares line in ln(updates) there; it never rises, because errors that do so are noise.

    >>> round(line_at([(10, 2.0), (100, 1.0)], 1000), 6), line_at([(10, 1.0), (100, 2.0)], 1000)
    (0.0, 1.5)
    """
    places = [math.log(at) for at, _ in points]
    middle, mean = sum(places) / len(points), sum(error for _, error in points) / len(points)
    width = sum((place - middle) ** 2 for place in places)
    lean = sum((place - middle) * (error - mean) for place, (_, error) in zip(places, points, strict=True))
    return mean + min(0.0, lean / width if width else 0.0) * (math.log(step) - middle)
