"""Joins races into one ranking: each round compares few settings side by side, and some run in many rounds."""

import math
import statistics
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from legroom.laws.loading import ENOUGH

K = TypeVar("K", bound=Hashable)


class LoaderSettings(Hashable, Protocol):
    """What a loader's cost depends on."""

    @property
    def num_workers(self) -> int: ...
    @property
    def prefetch_factor(self) -> int: ...
    @property
    def blas_threads(self) -> int | None: ...
    @property
    def pin_memory(self) -> bool: ...


L = TypeVar("L", bound=LoaderSettings)
NUM_SWEEPS = 50
"""Of the least squares, settings and paces in turn: where rounds share one setting of two, each halves what is left."""


def join_rounds(rounds: Sequence[Mapping[K, float]]) -> dict[K, float]:
    """Rates of all settings on one scale, from rounds in which some of them ran one after the other.

    log rate = setting + pace of the round, by least squares; then the median of each setting, the paces taken off. A
    machine that slows down slows all settings of a round down; one turn that met something else counts little.

    >>> joined = join_rounds([{"a": 100.0, "b": 50.0}, {"a": 80.0, "b": 40.0}, {"a": 90.0, "c": 180.0}])
    >>> {name: round(rate) for name, rate in joined.items()}
    {'a': 90, 'b': 45, 'c': 180}
    """
    logs = [{setting: math.log(rate) for setting, rate in one.items()} for one in rounds]
    paces = [0.0] * len(logs)
    settings: dict[K, float] = {}
    for _ in range(NUM_SWEEPS):
        settings = {setting: statistics.fmean(values) for setting, values in _without(paces, logs).items()}
        paces = [statistics.fmean(value - settings[setting] for setting, value in one.items()) for one in logs]
    usual = statistics.median(paces)
    return {setting: math.exp(statistics.median(values) + usual) for setting, values in _without(paces, logs).items()}


def whole_time_rates(rounds: Sequence[Mapping[K, float]]) -> dict[K, float]:
    """The joined rates, slowed down by what all turns together lost: samples over seconds, as a loop would show.

    A median leaves out the turns that met the end of an epoch or another program, and ranks better for it; a run meets
    them all. Turns take equal times, so the mean of their rates is that of the time they took together.

    >>> {name: round(rate) for name, rate in whole_time_rates([{"a": 100.0}, {"a": 100.0}, {"a": 40.0}]).items()}
    {'a': 80}
    """
    rates = join_rounds(rounds)
    pace = statistics.fmean(rate / rates[setting] for one in rounds for setting, rate in one.items())
    return {setting: pace * rate for setting, rate in rates.items()}


def _without(paces: Sequence[float], logs: Sequence[Mapping[K, float]]) -> dict[K, list[float]]:
    """Each setting's rounds, their paces taken off."""
    seen: dict[K, list[float]] = {}
    for one, pace in zip(logs, paces, strict=True):
        for setting, value in one.items():
            seen.setdefault(setting, []).append(value - pace)
    return seen


def pick_cheapest(rates: Mapping[K, float], cost: Callable[[K], Any], enough: float = ENOUGH) -> K:
    """The cheapest setting whose rate is within 2 % of the best.

    >>> pick_cheapest({2: 90.0, 4: 99.0, 8: 100.0}, cost=lambda workers: workers)
    4
    """
    best = max(rates.values())
    return min((setting for setting, rate in rates.items() if rate >= enough * best), key=cost)


def loader_cost(lane: LoaderSettings) -> tuple[int, int, bool, bool]:
    """What a loader costs: processes first, then batches held, then settings that are not ours."""
    return lane.num_workers, lane.prefetch_factor, lane.blas_threads is None, not lane.pin_memory


def choose_loader(rates: Mapping[L, float], *, repeats_samples: bool) -> L:
    """The loader to use: the cheapest within 2 % of the best. Search and advice both choose by this.

    BLAS threads left alone are raced for a note only; where every worker gives all samples, a second one would only
    repeat what the first gives.
    """
    usable = {lane: rate for lane, rate in rates.items() if lane.blas_threads is not None}
    if repeats_samples:
        usable = {lane: rate for lane, rate in usable.items() if lane.num_workers <= 1} or usable
    return pick_cheapest(usable, cost=loader_cost)
