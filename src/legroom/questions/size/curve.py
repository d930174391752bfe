"""The validation loss of one trial over its updates: smoothed, where it is lowest, and whether it has settled.

A trial is evaluated at updates a tenth apart, so all is told over ln updates. The smoothed curve is a line through the
neighbours of each point, nearer ones heavier (local linear regression, W. Cleveland 1979), of ln loss: one lucky
evaluation is no minimum.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

GROWTH = 1.1
"""Between evaluations."""
REACH = 0.4
"""How far neighbours count, in ln updates: four to each side."""
WITHIN = 0.01
"""Of the minimum, as a share of it: N. Ardalani et al. (2018), section 2."""
LEAST_POINTS = 16
LONG_AFTER, AFTER = 3.5, 2.5
"""Times the updates at which the curve was within a hundredth of its minimum, and at which it was lowest: one that
stands still has settled. Networks rest on the way, such as where they know how frequent each letter is and no more."""
FAR_ABOVE, SOON_AFTER = 0.08, 1.6
"""A curve that has risen so far above its minimum, in ln, has settled sooner; one that never fell has only risen."""
LEARNED = 0.05
"""How far below its beginning the minimum must lie, in ln: before a model learns anything its loss stands still too."""

Array = NDArray[np.float64]


def evaluation_steps(first: int) -> Iterator[int]:
    """Updates at which a trial is evaluated, a tenth apart.

    >>> steps = evaluation_steps(8)
    >>> [next(steps) for _ in range(6)]
    [8, 9, 10, 11, 13, 15]
    """
    step = first
    while True:
        yield step
        step = max(step + 1, math.ceil(step * GROWTH))


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """Smoothed ln losses over ln updates."""

    log_steps: Array
    log_losses: Array

    @property
    def least_loss(self) -> float:
        """The lowest of the smoothed curve."""
        return float(math.exp(self.log_losses.min()))

    @property
    def lowest_step(self) -> float:
        """Where that is."""
        return float(math.exp(self.log_steps[int(self.log_losses.argmin())]))

    @property
    def last_step(self) -> float:
        """Where it ends."""
        return float(math.exp(self.log_steps[-1]))

    def has_settled(self, least_steps: float = 0.0, *, may_stand: bool = True) -> bool:
        """Whether its minimum lies so far behind that it is the minimum; never before so many updates.

        may_stand: whether it is enough that it stands still; else it must have risen again.
        """
        if not self._has_fallen or self._is_short(least_steps):
            return False
        stands = self.last_step > max(LONG_AFTER * self.steps_within(), AFTER * self.lowest_step)
        return (may_stand and stands) or self._rose

    def only_rose(self, least_steps: float = 0.0) -> bool:
        """Whether it rose far above its beginning without falling first: what was learned holds for no other data."""
        return self._rose and not self._has_fallen and not self._is_short(least_steps)

    @property
    def _has_fallen(self) -> bool:
        return bool(self.log_losses[0] - self.log_losses.min() >= LEARNED)

    @property
    def _rose(self) -> bool:
        """Whether it is far above its minimum by now, and has been beyond it for a while."""
        is_above = self.log_losses[-1] - self.log_losses.min() > FAR_ABOVE
        return bool(is_above and self.last_step > SOON_AFTER * self.lowest_step)

    def _is_short(self, least_steps: float) -> bool:
        return len(self.log_steps) < LEAST_POINTS or self.last_step < least_steps

    def steps_within(self, share: float = WITHIN) -> float:
        """Updates to within that share of the minimum."""
        found = self.steps_to(self.least_loss * (1 + share))
        assert found is not None, "a curve reaches its own minimum"
        return found

    def steps_to(self, loss: float) -> float | None:
        """Updates to that loss, between evaluations; None where it is not reached."""
        wanted = math.log(loss)
        below = np.flatnonzero(self.log_losses <= wanted + 1e-12)
        if not len(below):
            return None
        place = int(below[0])
        if place == 0:
            return float(math.exp(self.log_steps[0]))
        before, after = self.log_losses[place - 1], self.log_losses[place]
        share = min(1.0, (before - wanted) / (before - after))
        step = self.log_steps[place - 1] + share * (self.log_steps[place] - self.log_steps[place - 1])
        return float(math.exp(step))

    def loss_by(self, num_steps: float) -> float | None:
        """The lowest loss within so many updates; None where that is before the first evaluation."""
        seen = self.log_losses[np.exp(self.log_steps) <= num_steps]
        return float(math.exp(seen.min())) if len(seen) else None


def smooth(steps: Sequence[int], losses: Sequence[float]) -> Curve:
    """The smoothed curve through evaluations.

    >>> curve = smooth([2**n for n in range(9)], [2.0 * 2**-n for n in range(9)])
    >>> round(curve.steps_to(0.25))
    8
    """
    logs, values = np.log(np.array(steps, float)), np.log(np.maximum(np.array(losses, float), 1e-12))
    away = logs[None, :] - logs[:, None]
    weights = np.maximum(0.0, 1 - (np.abs(away) / REACH) ** 3) ** 3
    total, first = weights.sum(axis=1), (weights * away).sum(axis=1)
    second = (weights * away**2).sum(axis=1)
    level, tilt = weights @ values, (weights * away) @ values
    spread = total * second - first**2
    alone = spread < 1e-9 * total**2
    line = (second * level - first * tilt) / np.where(alone, 1.0, spread)
    return Curve(logs, np.where(alone, level / total, line))
