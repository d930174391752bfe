"""Joins comparisons into one ranking: each round compares few settings side by side, and some run in many rounds."""

import math
import statistics
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar

from legroom.laws.loading import ENOUGH

K = TypeVar("K", bound=Hashable)

NUM_SWEEPS = 50
"""Of the least squares, settings and paces in turn: where rounds share one setting of two, each halves what is left."""


def join_rounds(rounds: Sequence[Mapping[K, float]]) -> dict[K, float]:
    """Throughputs of all settings on one scale, from rounds in which some of them ran one after the other.

    log throughput = setting + pace of the round, by least squares; then the median of each setting, the paces taken
    off. A machine that slows down slows all settings of a round down; one turn that met something else counts little.

    >>> joined = join_rounds([{"a": 100.0, "b": 50.0}, {"a": 80.0, "b": 40.0}, {"a": 90.0, "c": 180.0}])
    >>> {name: round(throughput) for name, throughput in joined.items()}
    {'a': 90, 'b': 45, 'c': 180}
    """
    logs = [{setting: math.log(throughput) for setting, throughput in one.items()} for one in rounds]
    paces = [0.0] * len(logs)
    settings: dict[K, float] = {}
    for _ in range(NUM_SWEEPS):
        settings = {setting: statistics.fmean(values) for setting, values in _without(paces, logs).items()}
        paces = [statistics.fmean(value - settings[setting] for setting, value in one.items()) for one in logs]
    usual = statistics.median(paces)
    return {setting: math.exp(statistics.median(values) + usual) for setting, values in _without(paces, logs).items()}


def mean_pace(rounds: Sequence[Mapping[K, float]], joined: Mapping[K, float]) -> float:
    """What all turns together reached of the joined throughputs: samples over seconds, as a loop would show.

    A median leaves out the turns that met the end of an epoch or another program, and ranks better for it; a run meets
    them all. Turns take equal times, so the mean of their throughputs is that of the time they took together.

    >>> rounds = [{"a": 100.0}, {"a": 100.0}, {"a": 40.0}]
    >>> round(mean_pace(rounds, join_rounds(rounds)), 3)
    0.8
    """
    return statistics.fmean(turn / joined[setting] for one in rounds for setting, turn in one.items())


def _without(paces: Sequence[float], logs: Sequence[Mapping[K, float]]) -> dict[K, list[float]]:
    """Each setting's rounds, their paces taken off."""
    seen: dict[K, list[float]] = {}
    for one, pace in zip(logs, paces, strict=True):
        for setting, value in one.items():
            seen.setdefault(setting, []).append(value - pace)
    return seen


def pick_cheapest(throughputs: Mapping[K, float], cost: Callable[[K], Any], enough: float = ENOUGH) -> K:
    """The cheapest setting whose throughput is within 2 % of the best.

    >>> pick_cheapest({2: 90.0, 4: 99.0, 8: 100.0}, cost=lambda workers: workers)
    4
    """
    best = max(throughputs.values())
    return min((setting for setting, one in throughputs.items() if one >= enough * best), key=cost)
