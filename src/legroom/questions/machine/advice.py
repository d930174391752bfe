"""What this machine has, as an answer; what is absent is said."""

from dataclasses import asdict
from typing import Any

from legroom.host import Host
from legroom.questions.machine.answer import MachineAnswer


def advise_machine(host: Host, speeds: dict[str, dict[str, Any]], *, seconds: float) -> MachineAnswer:
    """Join what was read and what was measured."""
    return MachineAnswer(
        job="",
        machine=host.name,
        seconds=seconds,
        notes=[*host.limits.notes, *(note for values in speeds.values() for note in values.get("notes", []))],
        not_measured=[
            *([host.why_no_gpu] if host.why_no_gpu else []),
            *(sentence for values in speeds.values() for sentence in values.get("not_measured", [])),
        ],
        host=asdict(host.limits),
        gpus=[asdict(gpu) for gpu in host.gpus],
        speeds=speeds,
    )
