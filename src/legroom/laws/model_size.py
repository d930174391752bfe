"""How many updates a model needs by its size and its data: fewer the larger the model, down to a plateau.

    steps(M, D) = a * D^k1 / M^k2 + b

M: parameters. D: samples of the training data. steps: updates at a fixed batch to within 1 % of the least validation
loss. b: the plateau, which no larger model gets below. N. Ardalani, J. Hestness and G. Diamos, Have a Larger Cake and
Eat it Faster Too (2018), section 3.1, state the law, in words with k1 = k2 = 1, and fit no exponents.

Counts of updates are as far off in ln, whatever their size, so the fit is one of ln steps. Given both exponents and
the plateau's share of the updates in the middle of what was measured, only a level is left, and that is a mean. So
all of them are tried on a grid, each with the weight that the counts give it (flat priors; level and noise integrated
out, as in A. Gelman et al., Bayesian Data Analysis, 3rd ed., section 3.2). Intervals are quantiles of that: they widen
by themselves where the counts do not tell a plateau from a small exponent.

A run that ended before it was there says that more updates are needed: it counts where the law lies below it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from legroom.errors import UsageError

LEAST_POINTS = 3
EXPONENTS = (-0.5, 3.0)
"""Between which k1 and k2 are looked for."""
MOST_SHARE = 0.98
"""Of the updates in the middle, that the plateau may be."""
NUM_EXPONENTS, NUM_SHARES, NUM_ZOOMS = 37, 25, 3
NEGLIGIBLE = 1e-4
"""Of the largest weight: the next grid leaves out what weighs less."""
USUAL_NOISE, USUAL_WEIGHT = 0.2, 1.0
"""Noise of one count in ln, as seeds of real jobs differ, and as how many counts that weighs: few may agree by chance,
and then show a plateau that larger models do not have."""
LEVEL, READ_LEVEL = 0.90, 0.94
"""Of the ranges told, and that at which a law's own numbers are read: with it k1, k2 and b hold in nine of ten seeded
cases each, and together in 85 of 100 or more."""
NUM_DRAWS = 1000
LITTLE = 0.05
"""Twice the parameters save less than this share of the updates: the plateau is reached."""

Array = NDArray[np.float64]


class Count(NamedTuple):
    """Updates that a model of one size took on some data."""

    num_parameters: float
    num_samples: float
    steps: float
    at_least: bool = False
    """Whether it ended before it was there."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SizeLaw:
    """The law with what the counts leave open: every number has a range, at 90 %."""

    a: float
    k1: float
    k2: float
    b: float
    a_range: tuple[float, float]
    k1_range: tuple[float, float]
    k2_range: tuple[float, float]
    b_range: tuple[float, float]
    noise: float
    """Of one count, in ln."""
    draws: "Draws"

    def steps(self, num_parameters: float, num_samples: float) -> float:
        """Updates by the middle of all laws that the counts allow."""
        return float(np.exp(np.median(self.draws.log_steps(num_parameters, num_samples))))

    def steps_range(
        self, num_parameters: float, num_samples: float, *, num_runs: float | None = 1
    ) -> tuple[float, float]:
        """Where the mean of so many runs lies, or with None the law itself."""
        logs = self.draws.log_steps(num_parameters, num_samples)
        noise = 0.0 if num_runs is None else self.draws.noise / math.sqrt(num_runs)
        return quantiles(np.exp(logs + noise))

    def plateau(self, num_samples: float) -> float:
        """Parameters from which on twice as many save less than 5 % of the updates; infinite where none is seen."""
        return float(np.median(self.draws.plateaus(num_samples)))

    def plateau_range(self, num_samples: float) -> tuple[float, float]:
        """Where that lies."""
        return quantiles(self.draws.plateaus(num_samples), READ_LEVEL)


@dataclass(frozen=True, slots=True, eq=False)
class Draws:
    """Laws as often as the counts speak for them, about the middle of what was measured."""

    middle: tuple[float, float]
    """ln M and ln D there."""
    k1: Array
    k2: Array
    share: Array
    """Of the plateau, in the middle."""
    level: Array
    """ln of the updates there."""
    noise: Array
    """What one count is off by, in ln, one value a draw."""

    def log_steps(self, num_parameters: float, num_samples: float) -> Array:
        """ln of the updates, by each."""
        model, data = math.log(num_parameters) - self.middle[0], math.log(num_samples) - self.middle[1]
        return self.level + log_shape(self.k1 * data - self.k2 * model, self.share)

    def plateaus(self, num_samples: float) -> Array:
        """Parameters at which the plateau begins, by each."""
        data = math.log(num_samples) - self.middle[1]
        saves = 1 - 2**-self.k2  # of the power's part
        with np.errstate(divide="ignore", invalid="ignore"):
            least = np.log((1 - self.share) / self.share) - np.log(LITTLE / (saves - LITTLE))
            found = np.exp(self.middle[0] + (self.k1 * data + least) / self.k2)
        return np.where(saves <= LITTLE, 0.0, found)


def log_shape(power: Array, share: Array) -> Array:
    """ln of the updates over those in the middle: the power's part, and the plateau's."""
    with np.errstate(divide="ignore"):
        return np.logaddexp(np.log1p(-share) + power, np.log(share))


def fit_size(counts: Sequence[Count]) -> SizeLaw:
    """The law through counts of updates, one for each size and data.

    >>> sizes = [(m, d) for m in (1e4, 4e4, 16e4) for d in (1e3, 4e3, 16e3)]
    >>> law = fit_size([Count(m, d, 40 * d**0.8 / m**0.5 + 60) for m, d in sizes])
    >>> round(law.k1, 1), round(law.k2, 1), round(law.steps(64e4, 64e3))
    (0.8, 0.5, 410)
    """
    if len({(count.num_parameters, count.num_samples) for count in counts if not count.at_least}) < LEAST_POINTS:
        raise UsageError(f"The law of updates by size needs {LEAST_POINTS} points at which a run was there, or more")
    model, data, seen = (np.log([count[place] for count in counts]) for place in range(3))
    middle = float(model.mean()), float(data.mean())
    bounds = np.array([count.at_least for count in counts])
    place = _Misfit(model - middle[0], data - middle[1], seen, bounds)
    exponents, shares = np.linspace(*EXPONENTS, NUM_EXPONENTS), np.linspace(0.0, MOST_SHARE, NUM_SHARES)
    axes = [exponents, exponents, shares]
    for _ in range(NUM_ZOOMS):
        squares, _ = place.grid(*axes)
        weights = (squares / squares.min()) ** (-place.free / 2)
        axes = [_zoom(axis, weights, number) for number, axis in enumerate(axes)]
    return _law(middle, place, axes)


class _Misfit:
    """How far the counts lie from each law of a grid."""

    def __init__(self, model: Array, data: Array, seen: Array, bounds: NDArray[np.bool_]) -> None:
        self.model, self.data, self.seen, self.bounds = model, data, seen, bounds
        self.num_counted = int((~bounds).sum())
        # A bound may add its square, and says nothing of the noise: how far beyond it that run would go nobody knows.
        self.free = float(self.num_counted) - 1 + USUAL_WEIGHT

    def grid(self, k1: Array, k2: Array, share: Array) -> tuple[Array, Array]:
        """Squares left over at the best level, and that level."""
        power = k1[:, None, None, None] * self.data - k2[None, :, None, None] * self.model
        left = self.seen - log_shape(power, share[None, None, :, None])
        counted = np.broadcast_to(~self.bounds, left.shape)
        level = np.sum(left, axis=-1, where=counted) / counted.sum(axis=-1)
        for _ in range(3 if self.bounds.any() else 0):
            counted = ~self.bounds | (left > level[..., None])  # the law lies below where that run ended
            level = np.sum(left, axis=-1, where=counted) / counted.sum(axis=-1)
        squares = np.sum((left - level[..., None]) ** 2, axis=-1, where=counted)
        return squares + USUAL_WEIGHT * USUAL_NOISE**2, level

    def weights(self, *axes: Array) -> Array:
        """How much the counts speak for each; that there is no plateau is as likely beforehand as that there is one."""
        squares, _ = self.grid(*axes)
        weights: Array = (squares / squares.min()) ** (-self.free / 2)
        if axes[2][0] == 0:
            weights[..., 0] *= MOST_SHARE / (axes[2][1] - axes[2][0])
        return weights


def _zoom(axis: Array, weights: Array, number: int) -> Array:
    """As many values between the first and the last that weigh something, with a neighbour each."""
    marginal = weights.max(axis=tuple(other for other in range(3) if other != number))
    kept = np.flatnonzero(marginal > NEGLIGIBLE)
    first, last = max(0, kept[0] - 1), min(len(axis) - 1, kept[-1] + 1)
    return np.linspace(axis[first], axis[last], len(axis))


def _law(middle: tuple[float, float], place: _Misfit, axes: Sequence[Array]) -> SizeLaw:
    squares, level = place.grid(*axes)
    weights = place.weights(*axes)
    even = (np.arange(NUM_DRAWS) + 0.5) / NUM_DRAWS
    chosen = np.searchsorted(np.cumsum(weights), even * weights.sum())
    spread = np.sqrt(squares.ravel()[chosen] / place.free)
    student = np.random.default_rng(0).standard_t(place.free, (2, NUM_DRAWS))  # the same always
    k1, k2, share = (axis[index] for axis, index in zip(axes, np.unravel_index(chosen, weights.shape), strict=True))
    levels = level.ravel()[chosen] + spread * student[0] / math.sqrt(place.num_counted)
    draws = Draws(middle, k1, k2, share, levels, spread * student[1])
    floors = np.exp(levels) * share
    first, second, floor = (float(np.median(each)) for each in (k1, k2, floors))
    total = float(np.exp(np.median(levels)))
    scales = (np.exp(levels) - floors) * np.exp(k2 * middle[0] - k1 * middle[1])
    return SizeLaw(
        a=max(0.0, total - floor) * math.exp(second * middle[0] - first * middle[1]),
        k1=first,
        k2=second,
        b=floor,
        a_range=quantiles(scales, READ_LEVEL),
        k1_range=quantiles(k1, READ_LEVEL),
        k2_range=quantiles(k2, READ_LEVEL),
        b_range=quantiles(floors, READ_LEVEL),
        noise=float(np.median(spread)),
        draws=draws,
    )


def quantiles(values: Array, level: float = LEVEL) -> tuple[float, float]:
    """Between which that share of them lies, nine of ten.

    >>> quantiles(np.arange(1.0, 100.0))
    (5.0, 94.0)
    """
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2], method="closest_observation")
    return float(low), float(high)
