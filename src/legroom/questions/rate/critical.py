"""The critical batch size by branches: how far several batch sizes get over the same samples, from the same place.

By `laws.steps` an update of B samples does 1 / (1 + B_crit / B) of what a noiseless one does, so that k times the batch
gets (B + B_crit) / (k B + B_crit) as far over as many samples. How far a branch got is read off the trunk's own curve:
the samples after which a run at the trunk's batch has the branch's value. W. Merrill et al., Critical Batch Size
Revisited (2025), branch in the same way, and take the largest batch that is not worse.

Losses are compared where they still fall, whatever the target: a score counts few samples and hardly tells two apart.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from legroom.questions.rate.evidence import Branch, Evidence, Judge, Trunk
from legroom.questions.rate.noise_scale import NoiseScale, noise_scale

WIDEST = 64.0
"""Times the own batch, both ways: further no branch can tell."""
LEAST_SPREAD = math.log(2.0)
NEAR = 2.0
"""How far, as a factor in samples, points tell the slope of the curve."""
EDGE = 0.98
"""Of the widest: there the branches tell no more than a side."""
APART = math.log(8.0)
"""Between branches and the noise of gradients, in ln: further apart, one of them is wrong, and nobody knows which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Critical:
    """What branches tell of B_crit."""

    value: float | None = None
    """In the middle of what each branch tells; None where none could be compared."""
    range: tuple[float, float] | None = None
    is_beyond: bool = False
    """Whether the branches tell only that it lies at an end of what they can tell, or beyond."""


def critical_batch(evidence: Evidence, best: Trunk) -> Critical:
    """B_crit by the branches: over as many samples, k times the batch gets (B + B_crit) / (k B + B_crit) as far."""
    found = [each for place in _places(evidence.branches) for each in _critical(place, evidence, best)]
    if not found:
        return Critical()
    logs = np.log([critical for critical, _ in found])
    weights = np.array([1 / doubt(critical / best.batch_size, factor) ** 2 for critical, factor in found])
    middle = float(np.average(logs, weights=weights))
    spread = max(LEAST_SPREAD, float(np.sqrt(np.average((logs - middle) ** 2, weights=weights))))
    noise = guess_by_noise(evidence, best)
    apart = 0.0 if noise is None else abs(middle - math.log(noise.batch_size))
    spread = max(spread, apart) if apart > APART else spread
    far = EDGE * math.log(WIDEST)
    beyond = abs(middle - math.log(best.batch_size)) >= far
    span = (math.exp(middle - spread), math.exp(middle + spread))
    return Critical(value=math.exp(middle), range=span, is_beyond=beyond)


def doubt(share: float, factor: float) -> float:
    """How far ln B_crit is off for each 1 % by which a branch's progress is, in %.

    With b = B_crit / B and progress p = (1 + b) / (k + b) it is p / (b dp/db). A branch tells little of a B_crit that
    is far below its own batch or far above it.

    >>> round(doubt(1.0, 4), 2), round(doubt(64.0, 4), 1)
    (3.33, 23.0)
    """
    return (factor + share) * (1 + share) / (share * abs(factor - 1))


def guess_by_noise(evidence: Evidence, best: Trunk) -> NoiseScale | None:
    """The noise scale of the gradients of all trunks at the winner's rate: the free first guess."""
    same = [trunk for trunk in evidence.trunks if trunk.learning_rate == best.learning_rate]
    return noise_scale([part for trunk in same for part in trunk.squares])


def better_power(evidence: Evidence, best: Trunk) -> float | None:
    """Whether branches of one size got further with the root of its factor on the rate, or all of it; None if neither.

    Both are compared at each place; only where all places agree is that told.
    """
    found = set()
    for place in _places(evidence.branches):
        powers: dict[float, float] = {}
        for branch in place:
            times, factor = branch.request.learning_rate / _rate_of(place), branch.size / best.batch_size
            if factor > 1 and times > 1 and math.isfinite(branch.loss):
                powers[round(math.log(times) / math.log(factor), 3)] = branch.loss
        if {0.5, 1.0} <= set(powers):
            found.add(0.5 if powers[0.5] < powers[1.0] else 1.0)
    return found.pop() if len(found) == 1 else None


def _places(branches: Sequence[Branch]) -> list[list[Branch]]:
    """Branches by the trunk and update they leave."""
    places: dict[tuple[Any, ...], list[Branch]] = {}
    for branch in branches:
        settings = branch.request.settings
        places.setdefault((branch.request.from_step, settings["seed"], settings["learning_rate"]), []).append(branch)
    return list(places.values())


def _rate_of(place: Sequence[Branch]) -> float:
    """The rate of the trunk that branches left, which another may have taken the place of since."""
    return float(place[0].request.settings["learning_rate"])


def _critical(place: Sequence[Branch], evidence: Evidence, best: Trunk) -> list[tuple[float, float]]:
    """What each batch size beside the trunk's own says of B_crit, by its better rate, with its factor."""
    own = next((branch for branch in place if branch.size == best.batch_size), None)
    if own is None or not math.isfinite(own.value):
        return []
    end = own.result.num_samples
    start = end - own.request.num_steps * best.batch_size
    judges: tuple[Judge, ...] = ("loss", "value")
    for judge in judges:
        slope = _slope(evidence, _rate_of(place), end, judge)
        if slope is None:
            continue
        found = []
        for size in sorted({branch.size for branch in place} - {best.batch_size}):
            value = min(getattr(branch, judge) for branch in place if branch.size == size)
            reached = end * math.exp(min(50.0, max(-50.0, (getattr(own, judge) - value) / slope)))
            share = max(0.0, (reached - start) / (end - start))
            factor = size / best.batch_size
            found.append((_from_share(share, factor, best.batch_size), factor))
        return found
    return []


def _from_share(share: float, factor: float, batch_size: int) -> float:
    """B_crit from how far a branch got: share = (B + B_crit) / (k B + B_crit)."""
    least, most = batch_size / WIDEST, batch_size * WIDEST
    if (share >= 1) is (factor > 1):  # the other batch loses nothing
        return most
    if share * factor <= 1 if factor > 1 else share * factor >= 1:  # it loses all there is to lose
        return least
    return min(most, max(least, batch_size * (share * factor - 1) / (1 - share)))


def _slope(evidence: Evidence, rate: float, num_samples: int, judge: Judge) -> float | None:
    """How much what is judged falls for each unit of ln samples about that many, over all trunks of that rate."""
    points = [point for trunk in evidence.trunks if trunk.learning_rate == rate for point in trunk.points]
    known = [(math.log(point.num_samples / num_samples), point.judged(judge)) for point in points]
    near = [point for point in known if abs(point[0]) < math.log(NEAR) and math.isfinite(point[1])]
    if len({x for x, _ in near}) < 2:
        return None
    slope = float(np.polyfit([x for x, _ in near], [y for _, y in near], 1)[0])
    return -slope if slope < 0 else None
