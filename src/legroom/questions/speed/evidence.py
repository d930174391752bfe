"""The timings a logbook holds, without those that cannot be true."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from legroom.errors import NothingMeasured
from legroom.logbook import Records
from legroom.questions.speed.records import PaddingSeen, SpeedQuestion, StepTime, StepTimes, TimeSteps
from legroom.questions.speed.step_runs import NUM_CONFIRMED, is_faster, join_runs
from legroom.requests import DeviceSpeed, MeasureDevice

TOLERANCE, UNSURE_TOLERANCE = 1.1, 2.0
"""Above so many times the measured peak a timing is refused; the larger where other processes slowed the peak down."""

Results = Sequence[tuple[TimeSteps, StepTimes]]


@dataclass(frozen=True, slots=True)
class Seen:
    """What the logbook holds about the question."""

    times: StepTimes
    points: list[StepTime]
    """Those that can be true, by size."""
    refused: list[str]
    """A sentence for each that cannot."""
    peak: float | None
    padding: PaddingSeen | None
    device_notes: list[str]
    """What was seen of the device itself, such as other processes on it."""
    tried: "list[Tried]"
    """Settings that some of the sizes were timed with again."""


@dataclass(frozen=True, slots=True)
class Tried:
    """Sizes timed again with a setting of the environment."""

    request: TimeSteps
    points: list[StepTime]
    gains: dict[int, float]
    """How many times the samples/s of the user's own environment, by size; clear ones in every process only."""


def gather(records: Records, question: SpeedQuestion) -> Seen:
    results = [
        (entry.request, entry.result)
        for entry in records.entries
        if isinstance(entry.request, TimeSteps) and isinstance(entry.result, StepTimes)
        if (entry.request.device, entry.request.precision) == (question.device, question.precision)
    ]
    times = _times(results)
    device = _device(records, question)
    peak, tolerance = _peak(device, question)
    ran = sorted((point for point in times.points if point.outcome == "measured"), key=lambda point: point.batch_size)
    refused = [why for point in ran if (why := why_impossible(point, times.flops_per_sample, peak, tolerance))]
    points = [point for point in ran if not why_impossible(point, times.flops_per_sample, peak, tolerance)]
    if not points:
        raise NothingMeasured(" ".join(refused) or "None of the sizes could be timed. Name smaller ones")
    padding = [entry.result for entry in records.entries if isinstance(entry.result, PaddingSeen)]
    return Seen(
        times,
        points,
        refused,
        peak,
        padding=padding[-1] if padding else None,
        device_notes=list(device.get("notes", [])),
        tried=_tried(results, points),
    )


def _times(results: Results) -> StepTimes:
    """The timings looked at closely last; of fresh processes all that timed the same sizes."""
    closely = [(request, times) for request, times in results if request.close]
    if not closely:
        raise NothingMeasured("The logbook holds no timings. Run legroom speed with the same --out first")
    request, times = closely[-1]
    runs = {
        other.run: its.points
        for other, its in results
        if other.run and other.is_plain and (other.batch_sizes, other.seconds) == (request.batch_sizes, request.seconds)
    }
    return replace(times, points=join_runs(list(runs.values()))) if request.run else times


def _tried(results: Results, points: list[StepTime]) -> list[Tried]:
    """Each setting with what all its processes say together."""
    settings = dict.fromkeys(tuple(request.environment.items()) for request, _ in results if not request.is_plain)
    return [
        _join_tried([pair for pair in results if tuple(pair[0].environment.items()) == s], points) for s in settings
    ]


def _join_tried(results: Results, points: list[StepTime]) -> Tried:
    runs = [[point for point in times.points if point.outcome == "measured"] for _, times in results]
    timed, joined = {point.batch_size: point for point in points}, join_runs(runs)
    gains = {
        point.batch_size: point.samples_per_second / timed[point.batch_size].samples_per_second
        for point in joined
        if point.batch_size in timed and _gains(results[0][0], runs, point, timed[point.batch_size])
    }
    return Tried(results[0][0], joined, gains)


def _gains(request: TimeSteps, runs: list[list[StepTime]], joined: StepTime, timed: StepTime) -> bool:
    """Whether every process was clearly faster; kept memory must also show in what the system has to do."""
    again = [point for run in runs for point in run if point.batch_size == timed.batch_size]
    if request.keeps_memory and joined.system_share >= timed.system_share / 2:
        return False
    return len(again) >= NUM_CONFIRMED and all(is_faster(point, timed) for point in again)


def _device(records: Records, question: SpeedQuestion) -> Mapping[str, Any]:
    """What was measured of the device; empty where nothing was."""
    found = [
        entry.result.values
        for entry in records.entries
        if isinstance(entry.request, MeasureDevice) and isinstance(entry.result, DeviceSpeed)
        if entry.request.device == question.device
    ]
    return found[-1] if found else {}


def _peak(device: Mapping[str, Any], question: SpeedQuestion) -> tuple[float | None, float]:
    """The most FLOP/s seen in any format the step may use, and how far above it a timing is still believed."""
    # torch rounds fp32 convolutions to TF32 on its own, so an fp32 step may use the faster format.
    formats = ("fp32", "tf32") if question.precision == "fp32" else ("fp32", "tf32", "bf16", "fp16")
    rates = [device.get(f"matmul_{name}_flops_per_second") for name in formats]
    tops = [rate.get("best", rate["median"]) for rate in rates if rate]
    return max(tops, default=None), UNSURE_TOLERANCE if device.get("notes") else TOLERANCE


def why_impossible(point: StepTime, flops_per_sample: float, peak: float | None, tolerance: float = TOLERANCE) -> str:
    """A sentence where the timing needs more FLOP/s than the device was seen to do; empty where it can be true."""
    needed = flops_per_sample * point.samples_per_second
    if peak is None or needed <= tolerance * peak:
        return ""
    return (
        f"The timing at a batch of {point.batch_size:,} was refused: it would need {needed / 1e12:,.3g} TFLOP/s, and "
        f"this device was measured to do {peak / 1e12:,.3g}. A step that does not wait for the device looks like that"
    )
