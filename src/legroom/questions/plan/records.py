"""What a plan is made of: answers to other questions. It asks nothing of a child itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from legroom.errors import UsageError
from legroom.questions.loading.answer import LoadingAnswer
from legroom.questions.memory.answer import MemoryAnswer
from legroom.questions.speed.answer import SpeedAnswer
from legroom.requests import RecordKind

if TYPE_CHECKING:
    from legroom.logbook import Records


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanQuestion:
    """Which plan do these answers give? It holds them whole: those in the folder may be replaced by newer ones."""

    path: str
    """Of the plan.toml."""
    memory: MemoryAnswer
    speed: SpeedAnswer | None = None
    loading: Sequence[LoadingAnswer] = ()
    """One for each batch size that was asked for, the newest first."""
    goal: str = "time"
    notes: Sequence[str] = ()
    """Why some answers were left alone, and where the search for the largest batch ended."""


RECORDS: tuple[RecordKind, ...] = ()
QUESTION = PlanQuestion


def default_question(records: "Records") -> PlanQuestion:
    """Plans of before said nothing of the answers they were made of."""
    raise UsageError("This logbook is from before plans were written down whole. Run legroom plan again")
