"""The least validation loss by model size and data: both help by a power, above a floor that neither gets below.

    loss(M, D) = floor + A / M^alpha + B / D^beta

M: parameters. D: samples of the training data. floor: what the data leave uncertain. Source: J. Hoffmann et al.,
Training Compute-Optimal Large Language Models (2022), section 3.3; for D alone J. Hestness et al., Deep Learning
Scaling is Predictable, Empirically (2017), whose exponents of D lie between 0.07 and 0.35.

Given both exponents the rest is linear and never negative, so both are tried on a grid, each with the weight that the
losses give it, as in `laws.model_size`.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from legroom.errors import UsageError
from legroom.laws.model_size import LEAST_POINTS, NUM_DRAWS, quantiles

EXPONENTS = np.geomspace(0.04, 2.0, 28)
USUAL_NOISE, USUAL_WEIGHT = 0.01, 1.0
"""Of one loss, as a share of it, and as how many losses that weighs."""
RIDGE = 1e-9
"""Keeps two columns that are nearly the same from dividing by nothing."""

Array = NDArray[np.float64]
Place = tuple[float, float]
"""(parameters, samples)."""
Losses = Sequence[tuple[float, float, float]]
"""(parameters, samples, loss)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LossLaw:
    """The law with what the losses leave open."""

    floor: float
    alpha: float
    beta: float
    middle: tuple[float, float]
    """M and D about which the parts are told."""
    draws: Array
    """A row a law: alpha, beta, floor, and the parts of M and of D in the middle."""
    noise: float
    """Of one loss, as a share of it."""

    def loss(self, num_parameters: float, num_samples: float) -> float:
        """The least validation loss, by the middle of all laws that the losses allow."""
        return float(np.median(self._losses(num_parameters, num_samples)))

    def loss_range(self, num_parameters: float, num_samples: float) -> tuple[float, float]:
        """Where the loss of a run lies at 90 %."""
        low, high = quantiles(self._losses(num_parameters, num_samples))
        return low * math.exp(-1.64 * self.noise), high * math.exp(1.64 * self.noise)

    def ratio_range(self, place: Place, there: Place) -> tuple[float, float]:
        """Between which the loss of the law there, over that at the place, lies."""
        return quantiles(self._losses(*there) / self._losses(*place))

    @property
    def floor_range(self) -> tuple[float, float]:
        """Where the floor lies."""
        return quantiles(self.draws[:, 2])

    @property
    def alpha_range(self) -> tuple[float, float]:
        """Where the exponent of the parameters lies."""
        return quantiles(self.draws[:, 0])

    @property
    def beta_range(self) -> tuple[float, float]:
        """Where the exponent of the data lies."""
        return quantiles(self.draws[:, 1])

    def _losses(self, num_parameters: float, num_samples: float) -> Array:
        alpha, beta, floor, model, data = self.draws.T
        model_part = model * (num_parameters / self.middle[0]) ** -alpha
        return floor + model_part + data * (num_samples / self.middle[1]) ** -beta  # type: ignore[no-any-return]


def fit_loss(losses: Losses) -> LossLaw:
    """The law through least losses, one for each size and data, all as far off as a share of them.

    >>> sizes = [(m, d) for m in (1e4, 4e4, 16e4) for d in (1e3, 4e3, 16e3)]
    >>> law = fit_loss([(m, d, 1 + 20 / m**0.5 + 5 / d**0.25) for m, d in sizes])
    >>> round(law.loss(64e4, 64e3), 2), 0.2 < law.beta < 0.35
    (1.34, True)
    """
    if len({(model, data) for model, data, _ in losses}) < LEAST_POINTS:
        raise UsageError(f"The law of the loss by size needs losses at {LEAST_POINTS} points or more")
    model, data, seen = (np.array(column) for column in zip(*losses, strict=True))
    middle = float(np.exp(np.log(model).mean())), float(np.exp(np.log(data).mean()))
    alphas, betas = (axis.ravel() for axis in np.meshgrid(EXPONENTS, EXPONENTS))
    columns = [np.ones((len(alphas), len(seen))), _powers(model / middle[0], alphas), _powers(data / middle[1], betas)]
    grid = np.column_stack([alphas, betas, *_parts(np.stack(columns, axis=-1) / seen[:, None])])
    squares = grid[:, 5] + USUAL_WEIGHT * USUAL_NOISE**2
    free = max(1.0, len(seen) - 3.0) + USUAL_WEIGHT
    weights = (squares / squares.min()) ** (-free / 2)
    even = (np.arange(NUM_DRAWS) + 0.5) / NUM_DRAWS
    draws = grid[np.searchsorted(np.cumsum(weights), even * weights.sum()), :5]
    alpha, beta, floor = (float(np.median(draws[:, place])) for place in range(3))
    noise = math.sqrt(float(squares.min()) / free)
    return LossLaw(floor=floor, alpha=alpha, beta=beta, middle=middle, draws=draws, noise=noise)


def _powers(sizes: Array, exponents: Array) -> Array:
    return sizes ** -exponents[:, None]


def _parts(columns: Array) -> Array:
    """Shares of the columns that sum up to 1 in every row as nearly as they can, none below 0, and the squares left.

    Every choice of columns is tried: the best that needs no negative share is the solution (non-negative least
    squares, C. Lawson and R. Hanson, 1974, for three columns).
    """
    num_laws, _, num_columns = columns.shape
    best = np.full((num_columns + 1, num_laws), math.inf)
    for chosen in itertools.chain(*(itertools.combinations(range(num_columns), num) for num in (1, 2, 3))):
        used = columns[..., chosen]
        squared = used.transpose(0, 2, 1) @ used + RIDGE * np.eye(len(chosen))
        parts = np.linalg.solve(squared, used.sum(axis=1)[..., None])[..., 0]
        left = ((used @ parts[..., None] - 1) ** 2).sum(axis=(1, 2))
        better = (parts >= 0).all(axis=1) & (left < best[-1])
        found = np.zeros((num_columns + 1, num_laws))
        found[list(chosen)], found[-1] = parts.T, left
        best[:, better] = found[:, better]
    return best
