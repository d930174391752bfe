"""How much the rate matters: what half and twice of it cost, and which rates are as good."""

import math
import statistics
from collections.abc import Sequence

from legroom.questions.rate.evidence import Trunk
from legroom.questions.rate.ranking import behind

HARDLY = 1.15
"""Times the fewest updates, within which a rate is as good."""
LEAST_SPREAD = 1.3
"""The plausible range is never told narrower than by this factor to both sides: rates were tried a factor 3 apart."""
MOST_SPREAD = 3.0
"""Nor wider than by this: what lies further away was tried by itself."""


def plausible_rates(trunks: Sequence[Trunk], best: Trunk, steps: Sequence[float] = ()) -> tuple[float, float]:
    """Rates around the best that need hardly more updates, by the parabola to each side of it.

    steps: of the best rate on each seed. Where these differ by more than that, so may the rates: each was tried once.
    """
    rate, hardly = best.learning_rate, math.log(hardly_more(steps))
    low, high = (_width(parabola(trunks, best, side=side), hardly) for side in (-1, 1))
    return rate / low, rate * high


def hardly_more(steps: Sequence[float]) -> float:
    """Times the updates by which two runs of one rate differ, and no less than rates that count as equally good.

    >>> hardly_more([100.0]), round(hardly_more([100.0, 130.0, 160.0]), 2)
    (1.15, 1.4)
    """
    logs = [math.log(each) for each in steps if math.isfinite(each)]
    return max(HARDLY, math.exp(math.sqrt(2) * statistics.stdev(logs))) if len(logs) > 1 else HARDLY


def _width(curve: float | None, hardly: float) -> float:
    if curve is None:
        return LEAST_SPREAD**2
    return math.exp(min(math.log(MOST_SPREAD), max(math.log(LEAST_SPREAD), math.sqrt(hardly / curve))))


def parabola(trunks: Sequence[Trunk], best: Trunk, *, side: int) -> float | None:
    """How steeply ln updates rises with the square of ln rate's distance to that side; None where nobody can tell.

    Where no rate on that side was slower, those on the other side stand for it.
    """
    sides = {-1: _slopes(trunks, best, -1), 1: _slopes(trunks, best, 1)}
    known = sides[side] or sides[-side]
    return statistics.median(known) if known else None


def _slopes(trunks: Sequence[Trunk], best: Trunk, side: int) -> list[float]:
    found = []
    for trunk in trunks:
        far = math.log(trunk.learning_rate / best.learning_rate)
        times = behind(trunk, best, trunks)
        if far * side > 0 and math.isfinite(times) and times > 1:
            found.append(math.log(times) / far**2)
    return found


def sensitivity(trunks: Sequence[Trunk], best: Trunk) -> dict[str, float]:
    """Updates at half and at twice the rate, as multiples; empty where no other rate was slower."""
    curves = {"half": parabola(trunks, best, side=-1), "twice": parabola(trunks, best, side=1)}
    return {name: math.exp(curve * math.log(2) ** 2) for name, curve in curves.items() if curve is not None}
