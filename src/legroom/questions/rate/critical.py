"""The critical batch size by branches: how far several batch sizes get over the same samples, from the same place.

By `laws.steps` an update of B samples does 1 / (1 + B_crit / B) of what a noiseless one does, so that k times the batch
gets (B + B_crit) / (k B + B_crit) as far over as many samples. How far a branch got is read off the trunk's own curve:
the samples after which a run at the trunk's batch has the branch's value. W. Merrill et al., Critical Batch Size
Revisited (2025), branch in the same way, and take the largest batch that is not worse.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from legroom.questions.rate.evidence import Branch, Evidence, Trunk

WIDEST = 64.0
"""Times the own batch, both ways: further no branch can tell."""
LEAST_SPREAD = math.log(2.0)
NEAR = 2.0
"""How far, as a factor in samples, points tell the slope of the curve."""


def critical_batch(evidence: Evidence, best: Trunk) -> tuple[float | None, tuple[float, float] | None]:
    """B_crit by the branches: over as many samples, k times the batch gets (B + B_crit) / (k B + B_crit) as far."""
    found = [
        (critical, weight)
        for place in _places(evidence.branches)
        for critical, weight in _critical(place, evidence, best)
    ]
    if not found:
        return None, None
    logs, weights = np.log([critical for critical, _ in found]), np.array([weight for _, weight in found])
    middle = float(np.average(logs, weights=weights))
    spread = max(LEAST_SPREAD, float(np.sqrt(np.average((logs - middle) ** 2, weights=weights))))
    return math.exp(middle), (math.exp(middle - spread), math.exp(middle + spread))


def _places(branches: Sequence[Branch]) -> list[list[Branch]]:
    """Branches by the trunk and update they leave."""
    places: dict[tuple[Any, ...], list[Branch]] = {}
    for branch in branches:
        request = branch.request
        places.setdefault((request.from_step, request.settings["seed"]), []).append(branch)
    return list(places.values())


def _critical(place: Sequence[Branch], evidence: Evidence, best: Trunk) -> list[tuple[float, float]]:
    """What each batch size beside the trunk's own says of B_crit, by its better rate, and how much that weighs."""
    own = next((branch for branch in place if branch.request.batch_size == best.batch_size), None)
    if own is None or not math.isfinite(own.value):
        return []
    slope, end = _slope(evidence, best, own.result.num_samples), own.result.num_samples
    start = end - own.request.num_steps * best.batch_size
    if slope is None:
        return []
    found = []
    for size in sorted({branch.request.batch_size for branch in place} - {best.batch_size}):
        value = min(branch.value for branch in place if branch.request.batch_size == size)
        reached = end * math.exp((own.value - value) / slope)
        share = max(0.0, (reached - start) / (end - start))
        found.append((_from_share(share, size / best.batch_size, best.batch_size), 1.0))
    return found


def _from_share(share: float, factor: float, batch_size: int) -> float:
    """B_crit from how far a branch got: share = (B + B_crit) / (k B + B_crit)."""
    least, most = batch_size / WIDEST, batch_size * WIDEST
    if (share >= 1) is (factor > 1):  # the other batch loses nothing
        return most
    if share * factor <= 1 if factor > 1 else share * factor >= 1:  # it loses all there is to lose
        return least
    return min(most, max(least, batch_size * (share * factor - 1) / (1 - share)))


def _slope(evidence: Evidence, best: Trunk, num_samples: int) -> float | None:
    """How much the value falls for each unit of ln samples about that many, over all trunks of the winner's rate."""
    points = [point for trunk in evidence.trunks if trunk.learning_rate == best.learning_rate for point in trunk.points]
    known = [(math.log(point.num_samples / num_samples), point.value) for point in points if math.isfinite(point.value)]
    near = [point for point in known if abs(point[0]) < math.log(NEAR)]
    if len({x for x, _ in near}) < 2:
        return None
    slope = float(np.polyfit([x for x, _ in near], [y for _, y in near], 1)[0])
    return -slope if slope < 0 else None
