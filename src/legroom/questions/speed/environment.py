"""Which variables of the environment make steps of one batch size faster on a CPU: timed in turn with the user's own.

Two processes differ by more than two visits of one, so each turn is a process of its own, started anew; a setting must
be faster in every one of them.
"""

import math
import statistics
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from legroom.environments import Environment
from legroom.errors import LegroomError
from legroom.questions.base import START_SECONDS
from legroom.questions.speed.evidence import NUM_CONFIRMED
from legroom.questions.speed.records import SpeedQuestion, StepTime
from legroom.questions.speed.search import TRY_SECONDS, is_fetching, settings_to_try
from legroom.session import Session

LEAST_GAIN = 1.05
"""Times as fast, that steps must be in every turn."""
PROCESS_SECONDS = START_SECONDS + TRY_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """A setting beside the user's own environment, turn by turn."""

    variables: Environment
    ratios: list[float]
    """Seconds of a step without it over those with it: above 1 it is faster."""

    @property
    def pays(self) -> bool:
        """Whether it was faster in as many turns as it takes to believe that."""
        return len(self.ratios) >= NUM_CONFIRMED and min(self.ratios) >= LEAST_GAIN

    @property
    def speedup(self) -> float:
        """How many times as fast, in the middle."""
        return math.exp(statistics.fmean(map(math.log, self.ratios)))


def take_turns(session: Session, question: SpeedQuestion, size: int, budget: float) -> list[Turns]:
    """Every setting that may pay there, as far as the seconds go; those that seem to are timed again."""
    started, plain = session.clock(), list[StepTime]()

    def has_time(num_processes: int) -> bool:
        return session.clock() - started + num_processes * PROCESS_SECONDS <= budget

    def own(place: int) -> StepTime | None:
        """The step in the user's own environment, once for each turn."""
        if place == len(plain) and (seen := _time(session, question, size, place, {})):
            plain.append(seen)
        return plain[place] if place < len(plain) else None

    first = own(0) if has_time(2) else None
    found = []
    fetches = first is not None and is_fetching(first)
    for words, setting in settings_to_try(session.host.limits.num_cores, fetches=fetches):
        ratios: list[float] = []
        while first is not None and len(ratios) < NUM_CONFIRMED and has_time(2):
            session.progress(words, 0.1 + 0.25 * len(found) + 0.08 * len(ratios))
            before, after = own(len(ratios)), _time(session, question, size, len(ratios), setting)
            if before is None or after is None:
                break
            ratios.append(_ratio(before, after, setting))
            if ratios[-1] < LEAST_GAIN:
                break
        if ratios:
            variables = question.request((size,), **setting).environment
            found.append(Turns(variables=variables, ratios=ratios))
    return found


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
