"""What to do: recommendations with value, range, reason and evidence, in a plan people can read and edit."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from legroom.job import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """One number to use, and why."""

    name: str
    value: Any
    range: tuple[Any, Any] | None
    """Between which values it may lie; None where nothing was measured."""
    because: str
    evidence: list[str] = field(default_factory=list)
    """Kinds of the records it rests on; empty where nothing was measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All recommendations for one job on one machine."""

    job: str
    options: Mapping[str, str]
    machine: str
    goal: str
    settings: Settings
    recommendations: list[Recommendation]
    notes: list[str] = field(default_factory=list)
    not_measured: list[str] = field(default_factory=list)

    def value(self, name: str) -> Any:
        """What is recommended under that name; None where nothing is."""
        return next((item.value for item in self.recommendations if item.name == name), None)
