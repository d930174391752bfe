"""How many updates a batch size needs to a given target: few for large batches, but never fewer than a least number.

    steps(B) = S_min * (1 + B_crit / B)

B: samples of an update. S_min: updates that a batch without noise would need. B_crit: the critical batch size, where
an update does half of what a noiseless one does; far below it twice the batch halves the updates, far above it twice
the batch saves nothing. Both belong to one target, for the best rate at each batch: the noise of gradients grows as
the loss falls, so B_crit is larger for a lower loss. S. McCandlish et al., An Empirical Model of Large-Batch Training
(2018), eq. 2.11: (steps / S_min - 1) * (samples / E_min - 1) = 1 with E_min = S_min * B_crit.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from legroom.errors import UsageError
from legroom.laws.intervals import T_QUANTILES

WIDEST = 1e4
"""How far beyond the batches measured B_crit is looked for, as a factor."""
LEAST_NOISE = 0.05
"""Of one count of updates, in ln: evaluations are so far apart, whatever the repeats say."""
GRID = 2000
WIDER = 1.15
"""Times Student's t: with it the range holds the planted B_crit in nine of ten seeded cases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepsLaw:
    """The law for one target, with what reruns may make of its numbers.

    >>> law = StepsLaw(least_steps=500.0, critical_batch_size=256.0)
    >>> law.steps(256), law.samples(256)
    (1000.0, 256000.0)
    """

    least_steps: float
    """S_min."""
    critical_batch_size: float
    """B_crit."""
    critical_range: tuple[float, float] = (0.0, math.inf)
    """Where B_crit lies at 90 %; the ends of what was looked at where the batches measured do not bound it."""
    noise: float = LEAST_NOISE
    """Of one count of updates, in ln."""

    def steps(self, batch_size: float) -> float:
        """Updates to the target at that batch size."""
        return self.least_steps * (1 + self.critical_batch_size / batch_size)

    def samples(self, batch_size: float) -> float:
        """Samples to the target at that batch size."""
        return batch_size * self.steps(batch_size)


def fit_steps(batch_sizes: Sequence[float], steps: Sequence[float]) -> StepsLaw:
    """The law through counts of updates, each count as far off in ln as another, at two batch sizes or more.

    >>> law = fit_steps([32, 128, 512, 2048], [4500, 1500, 750, 562.5])
    >>> round(law.least_steps, -1), round(law.critical_batch_size, -1)
    (500.0, 260.0)
    """
    if len(set(batch_sizes)) < 2:
        raise UsageError("The critical batch size needs updates to the target at two batch sizes or more")
    points = [(size, math.log(count)) for size, count in zip(batch_sizes, steps, strict=True)]
    low, high = math.log(min(batch_sizes) / WIDEST), math.log(max(batch_sizes) * WIDEST)
    places = [low + (high - low) * place / (GRID - 1) for place in range(GRID)]
    misfits = [_misfit(place, points) for place in places]
    least = min(misfits)
    best = places[misfits.index(least)]
    free = max(1, len(points) - 2)
    noise = max(LEAST_NOISE, math.sqrt(least / free))
    allowed = least + (WIDER * T_QUANTILES[min(free, len(T_QUANTILES)) - 1] * noise) ** 2
    inside = [place for place, misfit in zip(places, misfits, strict=True) if misfit <= allowed]
    return StepsLaw(
        least_steps=math.exp(_level(best, points)),
        critical_batch_size=math.exp(best),
        critical_range=(
            0.0 if inside[0] == places[0] else math.exp(inside[0]),
            math.inf if inside[-1] == places[-1] else math.exp(inside[-1]),
        ),
        noise=noise,
    )


def best_batch(law: StepsLaw, step_seconds: Callable[[int], float], sizes: Iterable[int]) -> int:
    """The batch size that reaches the target soonest; of equals the smallest.

    >>> law = StepsLaw(least_steps=500.0, critical_batch_size=256.0)
    >>> best_batch(law, lambda size: max(0.01, 0.0001 * size), [32, 64, 128, 256, 512, 1024])
    128
    """
    return min(sizes, key=lambda size: (law.steps(size) * step_seconds(size), size))


def rate_exponent(optimizer: Literal["sgd", "adam"]) -> float:
    """How the best rate grows with a batch below the critical one: rate ~ B^exponent.

    >>> rate_exponent("sgd"), rate_exponent("adam")
    (1.0, 0.5)
    """
    return 1.0 if optimizer == "sgd" else 0.5


def best_rate(rate: float, batch_size: float, other: float, critical_batch_size: float, exponent: float) -> float:
    """The best rate at another batch size, from the best at one: it grows as a power and levels off beyond B_crit.

        rate(B) ~ (B / (B + B_crit))^exponent

    With exponent 1 that is eq. 2.6 of McCandlish et al.: rate(B) = rate_max / (1 + B_crit / B); with 1/2 its likeness
    for optimizers that divide by the size of the gradient.

    >>> [round(best_rate(0.1, 64, size, 256, 1.0), 3) for size in (32, 64, 256, 4096)]
    [0.056, 0.1, 0.25, 0.471]
    """
    share = (other / (other + critical_batch_size)) / (batch_size / (batch_size + critical_batch_size))
    return float(rate * share**exponent)


def _level(place: float, points: Sequence[tuple[float, float]]) -> float:
    """ln S_min that fits best with that ln B_crit."""
    return sum(_rest(place, points)) / len(points)


def _misfit(place: float, points: Sequence[tuple[float, float]]) -> float:
    level = _level(place, points)
    return sum((rest - level) ** 2 for rest in _rest(place, points))


def _rest(place: float, points: Sequence[tuple[float, float]]) -> list[float]:
    critical = math.exp(place)
    return [count - math.log1p(critical / size) for size, count in points]
