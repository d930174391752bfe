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
        notes=[*limits.notes, *(note for values in speeds.values() for note in values.get("notes", []))],
        not_measured=[
            *([why_none] if why_none else []),
            *(sentence for values in speeds.values() for sentence in values.get("not_measured", [])),
        ],
        host=asdict(limits),
        gpus=[asdict(gpu) for gpu in gpus],
        speeds=speeds,
    )
