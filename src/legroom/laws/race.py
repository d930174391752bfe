"""Joins races into one ranking: each race compares few settings side by side, and some run in several races."""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar

from legroom.laws.loading import ENOUGH

K = TypeVar("K", bound=Hashable)


def join_races(races: Sequence[Mapping[K, float]]) -> dict[K, float]:
    """Rates of all settings on the scale of the first race.

    The machine may be slower in a later race than it was in the first: what is common to both tells by how much.

    >>> joined = join_races([{"a": 100.0, "b": 50.0}, {"a": 90.0, "c": 180.0}])
    >>> {name: round(rate) for name, rate in joined.items()}
    {'a': 100, 'b': 50, 'c': 200}
    """
    logs: dict[K, list[float]] = {}
    for race in races:
        shift = _shift(logs, race)
        for setting, rate in race.items():
            logs.setdefault(setting, []).append(math.log(rate) + shift)
    return {setting: math.exp(sum(seen) / len(seen)) for setting, seen in logs.items()}


def _shift(logs: Mapping[K, Sequence[float]], race: Mapping[K, float]) -> float:
    shared = [sum(logs[setting]) / len(logs[setting]) - math.log(race[setting]) for setting in race if setting in logs]
    return sum(shared) / len(shared) if shared else 0.0


def pick_cheapest(rates: Mapping[K, float], cost: Callable[[K], Any], enough: float = ENOUGH) -> K:
    """The cheapest setting whose rate is within 2 % of the best.

    >>> pick_cheapest({2: 90.0, 4: 99.0, 8: 100.0}, cost=lambda workers: workers)
    4
    """
    best = max(rates.values())
    return min((setting for setting, rate in rates.items() if rate >= enough * best), key=cost)
