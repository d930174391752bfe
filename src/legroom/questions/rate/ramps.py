"""What a ramp of the rate tells: where the loss falls fastest, where it turns, and where it blows up.

The loss of each update's own batch is noise for the most part. It is smoothed by an average that forgets, divided by
what the average lacks at its beginning, as L. Smith (2017) and fast.ai do it:

    mean <- b * mean + (1 - b) * loss          smoothed = mean / (1 - b^n)

The slope is that over ln rate: over the rate itself all of the ramp but its end would look level.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from legroom.questions.rate.records import RateRamp

FORGETS = 0.9
BLOWN_UP = 4.0
"""Times the least loss of a ramp, at which it counts as diverged."""
WINDOW = math.log(2.0)
"""Half-width, in ln rate, over which a slope is taken."""
FIRST = 10
"""Updates after which a smoothed loss can be trusted."""
FALLEN = 0.05
"""Share of all that a ramp's loss falls, before which a slope is noise: the least rates teach nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RampReading:
    """Rates at which something happens in one ramp; None where it does not."""

    steepest: float | None
    """Where the smoothed loss falls fastest over ln rate."""
    lowest: float | None
    """Where the smoothed loss is least."""
    blown: float | None
    """Where it is far above its least."""
    falls: bool
    """Whether the loss falls clearly anywhere."""


def smooth(losses: Sequence[float], forgets: float = FORGETS) -> list[float]:
    """The average without bias.

    >>> [round(value, 9) for value in smooth([2.0, 2.0, 2.0])]
    [2.0, 2.0, 2.0]
    """
    mean, found = 0.0, []
    for place, loss in enumerate(losses):
        mean = forgets * mean + (1 - forgets) * loss
        found.append(mean / (1 - forgets ** (place + 1)))
    return found


def read_ramp(ramp: RateRamp) -> RampReading:
    """What one ramp tells."""
    logs, smoothed = [math.log(rate) for rate in ramp.rates], smooth(ramp.losses)
    blown = blows_up(ramp)
    known = [place for place in range(FIRST, len(logs)) if blown is None or ramp.rates[place] < blown]
    lowest = min(known, key=lambda place: smoothed[place], default=None)
    noise = statistics.pstdev(ramp.losses[:FIRST]) if len(ramp.losses) > 1 else 0.0
    first = statistics.fmean(ramp.losses[:FIRST]) if ramp.losses else 0.0
    falls = lowest is not None and smoothed[lowest] < first - max(noise / 2, 0.02 * abs(ramp.losses[0]))
    part = [] if lowest is None else _descent(smoothed, [place for place in known if place <= lowest], first)
    slopes = {place: slope_at(logs, smoothed, logs[place]) for place in part}
    falling = {place: slope for place, slope in slopes.items() if slope is not None}
    steepest = min(falling, key=lambda place: falling[place], default=None)
    return RampReading(
        steepest=ramp.rates[steepest] if falls and steepest is not None else None,
        lowest=ramp.rates[lowest] if falls and lowest is not None else None,
        blown=blown,
        falls=falls,
    )


def _descent(smoothed: Sequence[float], places: Sequence[int], first: float) -> list[int]:
    """The places, of which the last is the lowest, from where the loss has begun to fall for good."""
    begun = first - FALLEN * (first - smoothed[places[-1]])
    since = max((place for place in places if smoothed[place] > begun), default=0)
    return [place for place in places if place >= since]


def slope_at(logs: Sequence[float], smoothed: Sequence[float], place: float) -> float | None:
    """How the loss changes for each unit of ln rate around one; None where too little is near."""
    near = [(x, y) for x, y in zip(logs, smoothed, strict=True) if abs(x - place) <= WINDOW]
    return float(np.polyfit([x for x, _ in near], [y for _, y in near], 1)[0]) if len(near) >= 3 else None


def diverging_rate(ramps: Sequence[RateRamp]) -> float | None:
    """The rate at which ramps blew up, in the middle of the seeds; None where none did."""
    return middle([rate for ramp in ramps if (rate := blows_up(ramp)) is not None])


def middle(rates: Sequence[float]) -> float | None:
    """The geometric mean; None of nothing.

    >>> round(middle([0.1, 10.0]), 9)
    1.0
    """
    return math.exp(statistics.fmean(map(math.log, rates))) if rates else None


def blows_up(ramp: RateRamp) -> float | None:
    """The first rate at which the smoothed loss is far above its least."""
    least = math.inf
    for place, (rate, loss) in enumerate(zip(ramp.rates, smooth(ramp.losses), strict=True)):
        least = min(least, loss)
        if place > FIRST and loss > BLOWN_UP * max(least, 1e-12):
            return rate
    return ramp.rates[-1] if ramp.diverged else None
