"""What a logbook holds about the question, read once for search and advice: looks, timings, and settings tried."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from legroom.errors import NothingMeasured
from legroom.laws.intervals import process_mean, rerun_mean
from legroom.logbook import Records
from legroom.questions.speed.knee import find_knee
from legroom.questions.speed.records import PaddingSeen, SpeedQuestion, StepTime, StepTimes, TimeSteps
from legroom.requests import DeviceSpeed, MeasureDevice

TOLERANCE, UNSURE_TOLERANCE = 1.1, 2.0
"""Above so many times the measured peak a timing is refused; the larger where other processes slowed the peak down."""
CLEAR_GAIN = 0.1
"""Of timings that did not run side by side."""
NUM_CONFIRMED = 3
"""Processes that a setting is timed in before its gain is told."""
KNOWN_WELL = 0.08
"""What processes of one size differ by, as a share of their mean, from which on it is timed in no more of them."""
LOOK_DOUBT = 0.15
"""Half-width of a first look's interval, as a share: what the next process may differ by."""

Results = Sequence[tuple[TimeSteps, StepTimes]]


@dataclass(frozen=True, slots=True)
class Tried:
    """Sizes timed again with a setting of the environment."""

    request: TimeSteps
    points: list[StepTime]
    gains: dict[int, float]
    """How many times the samples/s of the user's own environment, by size; clear ones in every process only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What the timings say."""

    times: StepTimes
    points: list[StepTime]
    """Those that can be true, by size."""
    refused: list[str]
    """A sentence for each that cannot."""
    knee: int
    span: tuple[int, int]
    """Between which sizes the knee lies."""
    peak: float | None
    device_notes: list[str]
    """What was seen of the device itself, such as other processes on it."""
    padding: PaddingSeen | None
    tried: list[Tried]
    """Settings that some of the sizes were timed with again."""

    def timed(self) -> dict[int, StepTime]:
        """The points by their sizes."""
        return {point.batch_size: point for point in self.points}


def undecided_sizes(evidence: Evidence) -> tuple[int, ...]:
    """Those between which the knee lies, with the best; none where all of them are known well."""
    low, high = evidence.span
    best = max(evidence.points, key=lambda point: point.samples_per_second)
    deciding = [point for point in evidence.points if low <= point.batch_size <= high or point is best]
    is_known = all(point.noise <= KNOWN_WELL for point in deciding)
    return () if is_known else tuple(point.batch_size for point in deciding)


def first_looks(records: Records, question: SpeedQuestion) -> dict[int, StepTimes]:
    """The last first look at each size."""
    return {
        request.batch_sizes[0]: times
        for request, times in _results(records, question)
        if request == question.look(request.batch_sizes[0])
    }


def gather(records: Records, question: SpeedQuestion) -> Evidence:
    """All but the first looks."""
    results, device = _results(records, question), _device(records, question)
    times = _looked(first_looks(records, question)) if question.quick else _times(results)
    peak, tolerance = _peak(device, question)
    ran = sorted((point for point in times.points if point.outcome == "measured"), key=lambda point: point.batch_size)
    refused = {point.batch_size: why_impossible(point, times.flops_per_sample, peak, tolerance) for point in ran}
    points = [point for point in ran if not refused[point.batch_size]]
    if not points:
        raise NothingMeasured(" ".join(refused.values()) or "None of the sizes could be timed. Name smaller ones")
    knee, span = find_knee(question, points, {*question.batch_sizes, records.description().baseline["batch_size"]})
    padding = [entry.result for entry in records.entries if isinstance(entry.result, PaddingSeen)]
    return Evidence(
        times=times,
        points=points,
        refused=[why for why in refused.values() if why],
        knee=knee,
        span=span,
        peak=peak,
        device_notes=list(device.get("notes", [])),
        padding=padding[-1] if padding else None,
        tried=_tried(results, {point.batch_size: point for point in points}),
    )


def _results(records: Records, question: SpeedQuestion) -> Results:
    return [
        (entry.request, entry.result)
        for entry in records.entries
        if isinstance(entry.request, TimeSteps) and isinstance(entry.result, StepTimes)
        if (entry.request.device, entry.request.precision) == (question.device, question.precision)
    ]


def _looked(looks: Mapping[int, StepTimes]) -> StepTimes:
    """First looks as timings, each in doubt by what processes differ."""
    points = [look.points[0] for look in looks.values()]
    if not points:
        raise NothingMeasured("The logbook holds no timings. Run legroom speed with the same --out first")
    return StepTimes(points=[replace(point, interval=_doubted(point.median_seconds)) for point in points])


def _doubted(seconds: float) -> tuple[float, float]:
    return seconds / (1 + LOOK_DOUBT), seconds * (1 + LOOK_DOUBT)


def _times(results: Results) -> StepTimes:
    """The timings looked at in detail last; of fresh processes all that timed the same sizes, or some of them."""
    detailed = [place for place, (request, _) in enumerate(results) if request.close]
    if not detailed:
        raise NothingMeasured("The logbook holds no timings. Run legroom speed with the same --out first")
    request, times = results[detailed[-1]]
    runs = {
        other.run: its.points
        for other, its in results[detailed[-1] :]
        if other.run and other.is_plain and other.seconds == request.seconds
        if set(other.batch_sizes) <= set(request.batch_sizes)
    }
    return replace(times, points=join_runs(list(runs.values()))) if request.run else times


def join_runs(runs: Sequence[Sequence[StepTime]]) -> list[StepTime]:
    """Each size as the processes saw it that ran it; as the first did where none could."""
    sizes = dict.fromkeys(point.batch_size for run in runs for point in run)
    return [_join([point for run in runs for point in run if point.batch_size == size]) for size in sizes]


def _join(points: Sequence[StepTime]) -> StepTime:
    ran = [point for point in points if point.outcome == "measured"]
    if not ran:
        return points[0]
    values = [point.median_seconds for point in ran]
    seconds, interval = rerun_mean(values)
    busy = [point.load.utilisation for point in ran if point.load.utilisation is not None]
    return replace(
        ran[0],
        median_seconds=seconds,
        interval=interval,
        process_spread=process_mean(values)[1],
        num_rounds=len(ran),
        num_repeats=sum(point.num_repeats for point in ran),
        peak_bytes=int(statistics.median(point.peak_bytes for point in ran)),
        system_share=statistics.median(point.system_share for point in ran),
        has_finite_loss=all(point.has_finite_loss for point in ran),
        load=replace(ran[0].load, utilisation=statistics.median(busy) if busy else None),
    )


def _tried(results: Results, timed: Mapping[int, StepTime]) -> list[Tried]:
    """Each setting with what all its processes say together."""
    settings = dict.fromkeys(tuple(request.environment.items()) for request, _ in results if not request.is_plain)
    return [
        _join_tried([pair for pair in results if tuple(pair[0].environment.items()) == setting], timed)
        for setting in settings
    ]


def _join_tried(results: Results, timed: Mapping[int, StepTime]) -> Tried:
    """By the sizes tried last, and the processes up to the first that was no faster: there the search ends."""
    request = results[-1][0]
    by_number = {other.run: times for other, times in results if other.batch_sizes == request.batch_sizes}
    runs: list[list[StepTime]] = []
    for number in sorted(by_number):
        runs.append([point for point in by_number[number].points if point.outcome == "measured"])
        if not any(is_faster(point, timed) for point in runs[-1]):
            break
    joined = join_runs(runs)
    gains = {
        point.batch_size: point.samples_per_second / timed[point.batch_size].samples_per_second
        for point in joined
        if point.batch_size in timed and _gains(request, runs, point, timed)
    }
    return Tried(request, joined, gains)


def _gains(request: TimeSteps, runs: list[list[StepTime]], joined: StepTime, timed: Mapping[int, StepTime]) -> bool:
    """Whether every process was clearly faster; malloc's reuse must also show in what the system has to do."""
    again = [point for run in runs for point in run if point.batch_size == joined.batch_size]
    if request.keeps_memory and joined.system_share >= timed[joined.batch_size].system_share / 2:
        return False
    return len(again) >= NUM_CONFIRMED and all(is_faster(point, timed) for point in again)


def is_faster(again: StepTime, timed: Mapping[int, StepTime]) -> bool:
    """Whether the size was clearly faster when it ran again with another setting.

    >>> timed = {8: StepTime(batch_size=8, median_seconds=1.0, interval=(0.8, 1.25))}
    >>> [is_faster(StepTime(batch_size=8, median_seconds=seconds), timed) for seconds in (0.75, 0.85)]
    [True, False]
    """
    if again.batch_size not in timed:
        return False
    before = timed[again.batch_size]
    return again.median_seconds < before.median_seconds * min(math.exp(-before.noise), 1 / (1 + CLEAR_GAIN))


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
    seen = [device.get(f"matmul_{name}_flops_per_second") for name in formats]
    tops = [one.get("best", one["median"]) for one in seen if one]
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
