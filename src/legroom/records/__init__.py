"""What is asked of a child and what it reports: frozen records in bytes and seconds, ready for JSON."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from legroom.records.environments import EXPANDABLE, KEPT_MALLOC, STEADY_MALLOC, UNCHANGED, Environment
from legroom.records.job import Describe, JobDescription
from legroom.records.loading import ColdRead, Lane, LaneRate, LoaderRates, LoadingQuestion, RaceLoaders, ReadCold
from legroom.records.machine import CardMemory, DeviceSpeed, MeasureDevice, ReadCard
from legroom.records.memory import MemoryQuestion, PhasePeaks, StepPeaks, TracedMemory, TraceMemory
from legroom.records.speed import (
    DeviceLoad,
    MeasurePadding,
    PaddingSeen,
    SpeedQuestion,
    StepTime,
    StepTimes,
    TimeSteps,
)
from legroom.records.training import Evaluated, Train, Trained

__all__ = [
    "EXPANDABLE",
    "KEPT_MALLOC",
    "STEADY_MALLOC",
    "UNCHANGED",
    "CardMemory",
    "ColdRead",
    "Describe",
    "DeviceLoad",
    "DeviceSpeed",
    "Entry",
    "Environment",
    "Evaluated",
    "JobDescription",
    "Lane",
    "LaneRate",
    "LoaderRates",
    "LoadingQuestion",
    "MeasureDevice",
    "MeasurePadding",
    "MemoryQuestion",
    "PaddingSeen",
    "PhasePeaks",
    "RaceLoaders",
    "ReadCard",
    "ReadCold",
    "Request",
    "Result",
    "RunStarted",
    "SpeedQuestion",
    "StepPeaks",
    "StepTime",
    "StepTimes",
    "TimeSteps",
    "TraceMemory",
    "TracedMemory",
    "Train",
    "Trained",
    "request_from",
    "to_json",
]

Request = (
    Describe
    | StepPeaks
    | MeasureDevice
    | ReadCard
    | TraceMemory
    | TimeSteps
    | MeasurePadding
    | Train
    | RaceLoaders
    | ReadCold
)
Result = (
    JobDescription
    | PhasePeaks
    | DeviceSpeed
    | CardMemory
    | TracedMemory
    | StepTimes
    | PaddingSeen
    | Trained
    | LoaderRates
    | ColdRead
)
REQUESTS: Mapping[str, type[Request]] = {
    "describe": Describe,
    "step_peaks": StepPeaks,
    "measure_device": MeasureDevice,
    "read_card": ReadCard,
    "race_loaders": RaceLoaders,
    "read_cold": ReadCold,
    "trace_memory": TraceMemory,
    "train": Train,
    "time_steps": TimeSteps,
    "measure_padding": MeasurePadding,
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
    together: str = ""
    """A word that questions of one command share; empty where one was asked alone."""


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
