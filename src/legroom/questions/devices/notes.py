"""Sentences beside the numbers: what limits them, what they rest on, what is missing."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from legroom.questions.devices.evidence import Evidence
from legroom.questions.devices.forecast import Forecaster
from legroom.questions.devices.records import BackwardTimes, DevicesQuestion
from legroom.reports.numbers import quantity
from legroom.training.several import norm_note

MUCH = 1.1
"""Times its seconds alone, from which on neighbours that a device waits for are told."""


def notes_of(
    evidence: Evidence,
    question: DevicesQuestion,
    points: Sequence[dict[str, Any]],
    chosen: dict[str, Any],
    batch: int,
    stops: int | None,
) -> list[str]:
    """What a reader has to know; `batch`: samples of one pass on each device."""
    facts = evidence.facts
    notes = [*question.notes, "Batches lie ready on each device: the time of loading them is left out"]
    if question.device == "cpu":
        notes.append(
            f"A device is a process with {question.num_threads} thread here, so one of them has one core alone; "
            "legroom speed times a process that has all cores"
        )
    if question.own_passes > 1:
        notes.append(
            f"The job joins {question.own_passes} passes into an update; here an update is one pass on each device, "
            f"and in the settings too. --batch-size {question.own_update:,} asks about updates of its own"
        )
    if question.largest_batch is not None:
        notes.append("Larger batches of a device are made in several passes, whose gradients are joined")
    notes += [*_busy(evidence, question), *_contention(evidence, question), *_straggler(evidence), *_uneven(points)]
    notes += [*_misses(points), *_beyond_data(points, question), *_beyond_published(points)]
    notes += _batch_notes(points, question)
    notes += norm_note(bool(facts.norm_features), question.own_batch, batch)
    notes += [*_update(evidence, chosen, batch), *_threads(question, chosen["num_devices"])]
    if facts.unused_parameters:
        notes.append(
            f"{len(facts.unused_parameters)} trainable parameters got no gradient, the first "
            f"{facts.unused_parameters[0]}: "
            "DistributedDataParallel needs find_unused_parameters=True, which searches the graph in each step"
        )
    if stops is not None:
        notes.append(f"More devices stop paying at {stops:,}: twice as many are less than 1.3 times faster there")
    return notes


def buffer_notes(facts: BackwardTimes, forecaster: Forecaster | None, num_devices: int) -> list[str]:
    """What is saved where buffers are not broadcast."""
    if not facts.buffer_bytes:
        return []
    saved = f"{quantity(facts.buffer_bytes, 'bytes')} in {facts.num_buffer_messages} messages"
    if forecaster is not None:
        seconds = replace(forecaster, broadcasts=True).buffers(num_devices)
        saved += f", about {quantity(seconds, 'seconds')} with {num_devices:,} devices,"
    return [f"broadcast_buffers=False saves {saved} before every forward pass"]


def _update(evidence: Evidence, chosen: dict[str, Any], batch: int) -> list[str]:
    """A sentence where passes of whole samples make another update than the one that was asked for."""
    passes, num = evidence.num_passes(chosen["batch_size"]), chosen["num_devices"]
    if passes * batch * num == round(chosen["global_batch"]):
        return []
    return [
        f"A run with these settings makes an update of {passes * batch * num:,} samples, not "
        f"{chosen['global_batch']:,.0f}: {passes} passes of {batch:,} on each device"
    ]


def _threads(question: DevicesQuestion, num_devices: int) -> list[str]:
    """A sentence where a run would compute with other threads than those that were timed."""
    threads = max(1, question.num_cores // num_devices)
    if question.device != "cpu" or question.link_name or num_devices == 1 or threads == question.num_threads:
        return []
    return [
        f"Processes were timed with {question.num_threads} thread each; legroom train --devices {num_devices} gives "
        f"each {threads}, so its steps may be shorter than these. OMP_NUM_THREADS=1 trains as was timed"
    ]


def _busy(evidence: Evidence, question: DevicesQuestion) -> list[str]:
    """A sentence where all cores are slower than one: other programs have them, or a step is too short to share."""
    gain = evidence.gain_by_threads(question)
    if gain is None or gain * MUCH > 1:
        return []
    return [
        f"A process with all {question.num_cores} cores takes {1 / gain:.3g} times as long as one with a thread: other "
        "programs keep cores busy, or its steps are too short to share. If the former, ask again on quiet cores"
    ]


def _contention(evidence: Evidence, question: DevicesQuestion) -> list[str]:
    """A sentence where devices slow each other down without talking."""
    if not evidence.together:
        return []
    num = max(evidence.together)
    times = evidence.contention(num, question.batch_size)
    if times < MUCH:
        return []
    return [
        f"{num} copies that share nothing take {times:.2f} times as long as one: they contend for cores, caches or "
        "memory, "
        "and no link is to blame"
    ]


def _straggler(evidence: Evidence) -> list[str]:
    """A sentence where one of the devices that were timed is slower than the others by itself."""
    steps = [each for timed in evidence.together.values() for each in timed.steps if len(each.rank_seconds) > 2]
    if not steps:
        return []
    seconds = list(steps[-1].rank_seconds)
    slowest = seconds.index(max(seconds))
    times = seconds[slowest] / statistics.median(seconds)
    if times < MUCH:
        return []
    return [
        f"Device {slowest + 1} of {len(seconds)} takes {times:.2f} times as long as the others by itself, and all wait "
        "for it; --speeds forecasts batches in proportion to speed"
    ]


def _misses(points: Sequence[dict[str, Any]]) -> list[str]:
    """A sentence where steps that were measured are not what was forecast of them, and what is made of it."""
    found = [
        point
        for point in points
        if not point["predicted"] and point["num_devices"] > 1 and not _is_inside(point["step_seconds"], point)
    ]
    if not found:
        return []
    told = "; ".join(
        f"{point['num_devices']:,} devices ({point['scaling']}) take {quantity(point['step_seconds'], 'seconds')}, "
        f"forecast {quantity(point['forecast_seconds'], 'seconds')}, {span_words(point['forecast_range'])}"
        for point in found
    )
    return [
        f"The forecast missed what was measured: {told}. What the fewest devices exposed beyond their forecast is "
        "added to that of more, and its range is as wide as the miss"
    ]


def _is_inside(seconds: float, point: Mapping[str, Any]) -> bool:
    low, high = point["forecast_range"]
    return bool(low <= seconds <= high)


def span_words(span: Sequence[float]) -> str:
    """Both ends with one unit.

    >>> span_words([0.00131, 0.0027]), span_words([0.05, 1.25])
    ('1.31 to 2.7 ms', '0.05 to 1.25 s')
    """
    low, high = span
    return f"{low * 1e3:.3g} to {high * 1e3:.3g} ms" if high < 0.1 else f"{low:.3g} to {high:.3g} s"


def _uneven(points: Sequence[dict[str, Any]]) -> list[str]:
    """A sentence where a global batch cannot be shared out evenly."""
    odd = [point["num_devices"] for point in points if point["batch_size"] != round(point["batch_size"])]
    if not odd:
        return []
    return [
        f"The global batch cannot be shared out evenly to {odd[0]:,} devices, nor to others of these points: they show "
        "a share that no run has, and are not recommended"
    ]


LEGW_BATCHES = (1024, 32768)
"""Global batches of ImageNet that LEGW was published with, Y. You's talk, table 6; others are its arithmetic alone."""


def _beyond_published(points: Sequence[dict[str, Any]]) -> list[str]:
    """A sentence where rates come from LEGW at a larger global batch than it was published with."""
    most = LEGW_BATCHES[1]
    beyond = [point for point in points if point["scaling"] == "weak" and point["global_batch"] > most]
    if not beyond:
        return []
    first = beyond[0]
    return [
        f"From {first['num_devices']:,} devices on the global batch of {first['global_batch']:,.0f} is larger than any "
        f"that LEGW was published with, {LEGW_BATCHES[0]:,} to {most:,} on ImageNet: its rate there is a guess"
    ]


def _beyond_data(points: Sequence[dict[str, Any]], question: DevicesQuestion) -> list[str]:
    """A sentence where one update would take more samples than there are."""
    samples = question.num_samples
    beyond = [] if samples is None else [point for point in points if point["global_batch"] > samples]
    if not beyond:
        return []
    first = beyond[0]
    return [
        f"From {first['num_devices']:,} devices on an update needs more samples ({first['global_batch']:,.0f}) than "
        f"the {samples:,} there are: those points have no epoch, and no run has them"
    ]


def _batch_notes(points: Sequence[dict[str, Any]], question: DevicesQuestion) -> list[str]:
    """Calls devices that only inflate the batch what they are."""
    weak = [point for point in points if point["scaling"] == "weak" and point["num_devices"] > 1]
    critical = question.critical_batch_size
    if not weak:
        return []
    if critical is None:
        return [
            "Weak scaling multiplies the global batch, and whether that saves updates is unknown here: legroom rate "
            "finds the critical batch size"
        ]
    above = [point for point in weak if point["global_batch"] > critical]
    if not above:
        return []
    first = above[0]
    return [
        f"From {first['num_devices']:,} devices on the global batch of {first['global_batch']:,.0f} is above the "
        "critical "
        f"{critical:,.0f}: with batches of {question.batch_size:,} each, further devices inflate the batch more "
        "than they "
        "save updates"
    ]


def unmeasured(evidence: Evidence, question: DevicesQuestion) -> list[str]:
    """What was not measured, and why."""
    found = []
    if not evidence.together and question.link_name is None and not question.missing:
        found.append(
            "more than one device: only one is visible, and no link is named. Name one for a forecast, as --link 10GbE"
        )
    if question.link_name is not None:
        found.append(f"the link {question.link_name}: its latency and bandwidth are a table's, or yours")
    if question.carries_state:
        found.append(
            "anything on several devices: batches of this job carry state from one to the next, so legroom cannot deal "
            "them out and trains it on one; its forecast is that of the same passes in a job that can be shared"
        )
    if question.device == "cuda":
        found.append("utilisation of each GPU: legroom speed reads it")
        if question.data_parallel() is None:
            found.append("nn.DataParallel, which takes two GPUs")
        found.append("NCCL between several GPUs, unless points say so: its scaling is a forecast")
    return found
