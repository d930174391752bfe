"""How a value falls with updates, beyond those that were run: a power that levels off, with a range.

    value(s) = level + slope * s^-power          slope >= 0, level no lower than values can be

The value is one of which less is better. An early part of a run bends as no power does, so the curve is laid through
all points, through the later ones and through the last ones alone: where these agree, so may the future.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

POWERS = np.linspace(0.1, 2.0, 39)
STARTS = (0.0, 0.125, 0.35)
"""Shares of the run from which on a curve is laid through its points."""
LEAST_POINTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerCurve:
    """One curve.

    >>> round(PowerCurve(level=1.0, slope=4.0, power=0.5).value(16), 3)
    2.0
    """

    level: float
    slope: float
    power: float

    def value(self, steps: float) -> float:
        """What a run of that many updates comes to."""
        return float(self.level + self.slope * steps**-self.power)

    def steps(self, value: float) -> float:
        """Updates to that value; infinite where the curve levels off before."""
        above = value - self.level
        return float((self.slope / above) ** (1 / self.power)) if above > 0 else math.inf


def fit_curves(steps: Sequence[float], values: Sequence[float], *, least: float = -math.inf) -> list[PowerCurve]:
    """Curves through all points, the later and the last ones, where these are enough; no value can pass `least`.

    >>> steps = [10.0, 20.0, 40.0, 80.0, 160.0, 320.0]
    >>> curves = fit_curves(steps, [0.5 + 3 / s for s in steps])
    >>> [round(curve.value(1000), 3) for curve in curves]
    [0.503, 0.503]
    """
    known = [(s, v) for s, v in zip(steps, values, strict=True) if math.isfinite(v) and s > 0]
    parts = [[point for point in known if point[0] >= start * known[-1][0]] for start in STARTS] if known else []
    return [_fit(part, least) for part in parts if len(part) >= LEAST_POINTS]


def _fit(points: Sequence[tuple[float, float]], least: float) -> PowerCurve:
    steps, values = np.array([s for s, _ in points]), np.array([v for _, v in points])
    fits = [_with_power(steps, values, float(power), least) for power in POWERS]
    return min(fits, key=lambda fit: fit[0])[1]


def _with_power(steps: "np.ndarray", values: "np.ndarray", power: float, least: float) -> tuple[float, PowerCurve]:
    shape = steps**-power
    slope, level = (float(number) for number in np.polyfit(shape, values, 1))
    if level < least:
        level = least
        slope = float(np.dot(shape, values - least) / np.dot(shape, shape))
    if slope < 0:
        slope, level = 0.0, float(values.mean())
    misfit = float(np.sum((level + slope * shape - values) ** 2))
    return misfit, PowerCurve(level=level, slope=slope, power=power)


def steps_by_decay(steps: Sequence[float], values: Sequence[float], value: float, *, least: float) -> float:
    """Updates to a value if what is left to gain goes on to shrink as over the last three points: the sanguine view.

    >>> steps_by_decay([10.0, 20.0, 30.0], [0.8, 0.4, 0.2], 0.05, least=0.0)
    50.0
    """
    floor = least if math.isfinite(least) else value - abs(value) - 1
    tail = [(s, math.log(v - floor)) for s, v in zip(steps, values, strict=True) if v > floor][-3:]
    if len(tail) < 2 or value <= floor:
        return math.inf
    slope = float(np.polyfit([s for s, _ in tail], [left for _, left in tail], 1)[0])
    return round(tail[-1][0] + (tail[-1][1] - math.log(value - floor)) / -slope, 6) if slope < 0 else math.inf
