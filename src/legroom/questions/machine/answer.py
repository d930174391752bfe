"""The answer of `legroom machine`, with the names scripts rely on."""

from dataclasses import dataclass
from typing import Any

from legroom.questions.base import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineAnswer(Answer):
    """Cores, memory, devices and their measured speeds."""

    host: dict[str, Any]
    gpus: list[dict[str, Any]]
    speeds: dict[str, dict[str, Any]]
    """Measured matrix-product peak and copy bandwidth by device."""
