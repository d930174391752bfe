"""What is asked of a child and what it reports: frozen records in bytes and seconds, ready for JSON."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from legroom.records.environments import EXPANDABLE, QUIET_THREADS, STEADY_MALLOC
from legroom.records.job import Describe, JobDescription
from legroom.records.machine import CardMemory, DeviceSpeed, MeasureDevice, ReadCard
from legroom.records.memory import MemoryQuestion, PhasePeaks, StepPeaks, TracedMemory, TraceMemory

__all__ = [
    "EXPANDABLE",
    "QUIET_THREADS",
    "STEADY_MALLOC",
    "CardMemory",
    "Describe",
    "DeviceSpeed",
    "Entry",
    "JobDescription",
    "MeasureDevice",
    "MemoryQuestion",
    "PhasePeaks",
    "ReadCard",
    "Request",
    "Result",
    "RunStarted",
    "StepPeaks",
    "TraceMemory",
    "TracedMemory",
    "request_from",
    "to_json",
]

Request = Describe | StepPeaks | MeasureDevice | ReadCard | TraceMemory
Result = JobDescription | PhasePeaks | DeviceSpeed | CardMemory | TracedMemory
REQUESTS: Mapping[str, type[Request]] = {
    "describe": Describe,
    "step_peaks": StepPeaks,
    "measure_device": MeasureDevice,
    "read_card": ReadCard,
    "trace_memory": TraceMemory,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted:
    """The head of a run in a logbook: whose records follow."""

    run: str
    job: str
    options: Mapping[str, str]
    digest: str
    machine: str
    command: str
    legroom_version: str
    started_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One thing asked and answered."""

    run: str
    request: Request
    result: Result
    seconds: float
    at: str


def request_from(data: Mapping[str, Any]) -> Request:
    """The request a mapping describes."""
    return REQUESTS[data["kind"]](**data)


def to_json(record: Any) -> dict[str, Any]:
    """A record as plain mappings, lists and numbers."""
    return asdict(record)
