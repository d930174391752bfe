"""`legroom machine`: what does this machine have, and how fast is it?"""

from dataclasses import asdict, dataclass
from typing import Any

from legroom.clock import monotonic
from legroom.engines.local import LocalEngine
from legroom.host import Host
from legroom.host.target import check_device
from legroom.job_address import JobAddress
from legroom.questions.base import Answer
from legroom.requests import MeasureDevice
from legroom.session import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineAnswer(Answer):
    """Cores, memory, devices and their measured speeds."""

    host: dict[str, Any]
    gpus: list[dict[str, Any]]
    speeds: dict[str, dict[str, Any]]
    """Measured matrix-product peak and copy bandwidth by device."""


def machine(*, device: str = "auto", run: Run | None = None) -> MachineAnswer:
    """What this machine has: cores, memory, GPUs, and how fast they are."""
    run = run or Run()
    check_device(device)
    devices = ["cpu"] if device == "cpu" or not run.host.gpus else ["cpu", "cuda"]
    started = monotonic()
    engine = run.engine or LocalEngine(silence_seconds=run.timeout)
    child = engine.start(JobAddress(text=""), {}, alone=True)  # it needs no job, and no other child will follow
    try:
        speeds = {}
        for share, name in enumerate(devices):
            run.progress(f"measuring {name}", share / len(devices))
            speeds[name] = dict(child.ask(MeasureDevice(device=name)).values)
    finally:
        child.close()
    return advise_machine(run.host, speeds, seconds=monotonic() - started)


def advise_machine(host: Host, speeds: dict[str, dict[str, Any]], *, seconds: float) -> MachineAnswer:
    """Join what was read and what was measured; what is absent is said."""
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
