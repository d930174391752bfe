"""Seconds of a training step by batch size: a floor that bends into a proportion, bent further where caches do so.

    t(B) = (host^16 + work(B)^16)^(1/16), or work(B) where the host's pace is not known
    work(B) = floor * (1 + (B / bend)^sharpness)^(1 / sharpness) * exp(correction(ln B))

host: what the host takes to launch a step, where it was measured apart from the device; else it is part of the floor.
floor: what a step takes however small the batch (launching kernels, the optimizer). bend: the
batch at which the work of samples weighs as much as the floor. sharpness: 1 is the line a + b*B; large values are
max(floor, b*B), as where a GPU's kernels hide behind their launches. correction: lines between the sizes measured,
through what the curve leaves over there, so that it passes through every one of them at which the host does not set the
pace; it is what caches and changes of algorithm do.

The throughput B / t(B) rises to a ceiling; the knee is the smallest batch within a share of the best. The line alone
is the model of A. Qiao et al., Pollux (OSDI 2021).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SHARPNESS = (0.6, 0.8, 1.0, 1.25, 1.6, 2.0, 3.0, 5.0, 10.0)
SOFTNESS = 1e-3
"""What a sharpness away from 1 costs in the fit, by its squared logarithm: where the points do not tell, a line."""
NUM_BENDS, BEYOND = 241, 3.0
"""Bends tried, evenly in ln B, and how far beyond the sizes measured."""
JOIN = 16.0
"""How sharply the host's pace turns into the device's: nearly the larger of the two."""
LEAST_DOUBT = 0.02
"""Half-width of the law's interval at the sizes measured: what a median is known to."""

Points = Sequence[tuple[int, float]]
"""(batch size, seconds of a step)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedLaw:
    """t(B), through the sizes measured."""

    floor_seconds: float
    bend: float
    sharpness: float
    sizes: tuple[int, ...]
    """Sizes the law was fitted from."""
    corrections: tuple[float, ...]
    """Natural logarithm of measured over curve at each of these sizes."""
    host_seconds: float = 0.0
    """What the host takes to launch a step; 0 where it was not measured, and then part of the curve."""
    host_doubt: float = 0.0
    """Half-width of the interval where the host sets the pace, as a share: how far sizes measured lie from the law."""
    doubt: float = LEAST_DOUBT
    """Half-width of the interval an octave and more from any size measured, as a share: what checks have shown."""

    def curve(self, batch_size: float) -> float:
        """Seconds by the smooth curve alone."""
        shape = np.logaddexp(0.0, self.sharpness * math.log(batch_size / self.bend)) / self.sharpness
        return self.floor_seconds * math.exp(float(shape))

    def work(self, batch_size: float) -> float:
        """Seconds by curve and correction: of the device alone, where the host's pace is known."""
        correction = np.interp(math.log(batch_size), np.log(self.sizes), self.corrections)
        return self.curve(batch_size) * math.exp(float(correction))

    def seconds(self, batch_size: float) -> float:
        """Seconds of a step at that batch size."""
        work, host = self.work(batch_size), self.host_seconds
        return max(work, host) * (1 + (min(work, host) / max(work, host)) ** JOIN) ** (1 / JOIN) if host else work

    def interval(self, batch_size: float) -> tuple[float, float]:
        """Between which a step's seconds should lie."""
        middle = self.seconds(batch_size)
        waits = self.work(batch_size) < self.host_seconds
        share = max(self.doubt * min(1.0, self._distance(batch_size)), self.host_doubt if waits else 0.0) + LEAST_DOUBT
        return middle / (1 + share), middle * (1 + share)

    def samples_per_second(self, batch_size: float) -> float:
        """Throughput at that batch size."""
        return batch_size / self.seconds(batch_size)

    def _distance(self, batch_size: float) -> float:
        """Octaves to the nearest size measured."""
        return min(abs(math.log2(batch_size / size)) for size in self.sizes)


def fit_speed(points: Points, host_seconds: float = 0.0) -> SpeedLaw:
    """The law through the points: the curve by least squares in ln t, the correction through what is left.

    >>> law = fit_speed([(1, 2.0), (8, 2.0), (64, 8.0), (512, 64.0)])
    >>> round(law.seconds(64), 6), round(law.seconds(2), 1), round(law.seconds(256)), round(law.bend)
    (8.0, 2.0, 32, 16)
    """
    ordered = sorted(points)
    sizes, logs = np.log([size for size, _ in ordered]), np.log([seconds for _, seconds in ordered])
    bends = np.linspace(sizes[0] - BEYOND, sizes[-1] + BEYOND, NUM_BENDS)
    _, bend, sharpness = min(_best_bend(sizes, logs, bends, sharpness) for sharpness in SHARPNESS)
    left = logs - _log_shape(sizes, bend, sharpness)
    return SpeedLaw(
        floor_seconds=math.exp(float(left.mean())),
        bend=math.exp(bend),
        sharpness=sharpness,
        sizes=tuple(size for size, _ in ordered),
        corrections=tuple(float(value) for value in left - left.mean()),
        host_seconds=host_seconds,
    )


def _best_bend(
    sizes: NDArray[np.float64], logs: NDArray[np.float64], bends: NDArray[np.float64], sharpness: float
) -> tuple[float, float, float]:
    """(cost, bend, sharpness) of the bend that leaves least; the floor is the mean of what is left."""
    left = logs - _log_shape(sizes, bends[:, None], sharpness)
    costs = ((left - left.mean(axis=1, keepdims=True)) ** 2).sum(axis=1) + SOFTNESS * math.log(sharpness) ** 2
    best = int(costs.argmin())
    return float(costs[best]), float(bends[best]), sharpness


def _log_shape(log_sizes: NDArray[np.float64], log_bend: object, sharpness: float) -> NDArray[np.float64]:
    return np.logaddexp(0.0, sharpness * (log_sizes - log_bend)) / sharpness  # type: ignore[no-any-return, operator]


def knee_of(samples_per_second: Callable[[int], float], sizes: Sequence[int], share: float) -> int:
    """The smallest of the sizes whose throughput is within the share of the best among them.

    >>> knee_of(lambda size: size / (10 + size), [1, 10, 100, 1000], 0.9)
    100
    """
    best = max(samples_per_second(size) for size in sizes)
    return next(size for size in sorted(sizes) if samples_per_second(size) >= share * best)
