"""What this machine has, as an answer; what is absent is said."""

from dataclasses import asdict, dataclass
from typing import Any

from legroom.answers import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineAnswer(Answer):
    """Cores, memory, devices and their measured speeds."""

    host: dict[str, Any]
    gpus: list[dict[str, Any]]
    speeds: dict[str, dict[str, Any]]
    """Measured matrix-product peak and copy bandwidth by device."""


def advise_machine(
    limits: Any,
    gpus: list[Any],
    why_none: str | None,
    speeds: dict[str, dict[str, Any]],
    *,
    machine: str,
    seconds: float,
) -> MachineAnswer:
    """Join what was read and what was measured."""
    return MachineAnswer(
        job="",
        machine=machine,
        seconds=seconds,
        notes=list(limits.notes),
        not_measured=[why_none] if why_none else [],
        host=asdict(limits),
        gpus=[asdict(gpu) for gpu in gpus],
        speeds=speeds,
    )
