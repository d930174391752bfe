"""Which variables of the environment make steps of one batch size faster on a CPU: timed in turn with the user's own.

Two processes differ by more than two visits of one, so each turn is a process of its own, started anew. Every setting
has a turn; the one that gains most has another, and must be faster again.
"""

import math
import statistics
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from legroom.environments import Environment
from legroom.errors import LegroomError
from legroom.questions.base import START_SECONDS
from legroom.questions.speed.records import SpeedQuestion, StepTime
from legroom.questions.speed.search import TRY_SECONDS, is_fetching, settings_to_try
from legroom.session import Session

NUM_TURNS, LEAST_GAIN = 2, 1.08
"""Turns in which a setting must be faster, and how many times in each."""
PROCESS_SECONDS = START_SECONDS + TRY_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """A setting beside the user's own environment, turn by turn."""

    variables: Environment
    setting: Mapping[str, Any] = field(default_factory=dict)
    """In words of the request."""
    ratios: list[float]
    """Seconds of a step without it over those with it: above 1 it is faster."""

    @property
    def gains(self) -> bool:
        """Whether it was faster whenever it was timed."""
        return min(self.ratios) >= LEAST_GAIN

    @property
    def pays(self) -> bool:
        """Whether that was as often as it takes to believe it."""
        return self.gains and len(self.ratios) >= NUM_TURNS

    @property
    def speedup(self) -> float:
        """How many times as fast, in the middle."""
        return math.exp(statistics.fmean(map(math.log, self.ratios)))


def take_turns(session: Session, question: SpeedQuestion, size: int, budget: float) -> list[Turns]:
    """Every setting that may pay there, and again the one that gained most, as far as the seconds go."""
    until = session.clock() + budget
    first = _time(session, question, size, 0, {}) if _has_time(session, until, 2) else None
    if first is None:
        return []
    found: list[Turns] = []
    for words, setting in settings_to_try(session.host.limits.num_cores, fetches=is_fetching(first)):
        session.progress(words, 0.2 + 0.2 * len(found))
        after = _time(session, question, size, 0, setting) if _has_time(session, until, 1) else None
        if after is not None:
            variables = question.request((size,), **setting).environment
            found.append(Turns(variables=variables, setting=setting, ratios=[_ratio(first, after, setting)]))
    return _confirmed(session, question, size, until, found)


def _confirmed(session: Session, question: SpeedQuestion, size: int, until: float, found: list[Turns]) -> list[Turns]:
    """The same, with more turns of the setting that gained most; of the next one where it gains no more."""
    gaining = sorted((each for each in found if each.gains), key=lambda each: -each.speedup)
    for turns in gaining:
        while turns.gains and not turns.pays and _has_time(session, until, 2):
            place = len(turns.ratios)
            before, after = (_time(session, question, size, place, each) for each in ({}, turns.setting))
            turns.ratios.append(_ratio(before, after, turns.setting) if before and after else 1.0)
        if turns.pays:
            break
    return found


def _has_time(session: Session, until: float, num_processes: int) -> bool:
    return session.clock() + num_processes * PROCESS_SECONDS <= until


def _ratio(before: StepTime, after: StepTime, setting: Mapping[str, Any]) -> float:
    """How many times as fast; malloc's reuse must also show in what the system has to do."""
    if setting.get("keeps_memory") and after.system_share >= before.system_share / 2:
        return 1.0
    return before.median_seconds / after.median_seconds


def _time(
    session: Session, question: SpeedQuestion, size: int, place: int, setting: Mapping[str, Any]
) -> StepTime | None:
    """The step in a process of its own; None where it failed, as where more is kept than there is."""
    with suppress(LegroomError):
        point = session.ask(question.request((size,), seconds=TRY_SECONDS, run=place + 1, **setting)).points[0]
        return point if point.outcome == "measured" else None
    return None
