"""What more devices give, how many to take, and with which batch, rate and buckets."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from legroom.errors import NothingMeasured
from legroom.laws.communication import Link, bus_bandwidth
from legroom.logbook import Records
from legroom.questions.devices.answer import DevicesAnswer
from legroom.questions.devices.batches import batch_rows
from legroom.questions.devices.choice import choose
from legroom.questions.devices.evidence import Evidence, gather
from legroom.questions.devices.forecast import Forecaster, best_cap, forecast_unequal
from legroom.questions.devices.notes import buffer_notes, notes_of, unmeasured
from legroom.questions.devices.points import all_points
from legroom.questions.devices.recommend import (
    recommend_buckets,
    recommend_buffers,
    recommend_devices,
    recommend_rate,
    settings_of,
)
from legroom.questions.devices.records import DevicesQuestion
from legroom.questions.devices.split_rows import split_notes, split_rows
from legroom.questions.devices.wire import buffers_off, epoch_traffic, wire_rows


def advise(records: Records, question: DevicesQuestion) -> DevicesAnswer:
    """The answer that the entries hold."""
    evidence, description = gather(records.entries, question), records.description()
    if (question.largest_batch or question.batch_size) not in evidence.alone:
        raise NothingMeasured("The logbook holds no step of one device at this batch size. Ask the question again")
    facts, link = evidence.facts, evidence.link(question)
    forecaster = None if link is None else _forecaster(evidence, question, link)
    points = all_points(evidence, question, forecaster)
    choice = choose(points, question, evidence)
    scaling, num, stops = choice.scaling, choice.num_devices, choice.stops
    chosen = next(point for point in points if (point["num_devices"], point["scaling"]) == (num, scaling))
    off, _ = buffers_off(facts)
    cap, caps = question.bucket_cap_mb, dict[float | None, float]()
    if forecaster is not None and num > 1:
        cap, caps = best_cap(replace(forecaster, broadcasts=not off), num, chosen["batch_size"])
    wire, batches = wire_rows(facts, question, max(2, num)), batch_rows(points, question)
    rate = recommend_rate(chosen, question)
    splits = split_rows(evidence, question, forecaster)
    settings = settings_of(evidence, chosen, rate)
    if num > 1:
        settings |= {"bucket_cap_mb": cap, "broadcast_buffers": not off}
    return DevicesAnswer(
        job=records.head.job,
        machine=records.head.machine,
        seconds=records.seconds(),
        notes=[
            *records.notes,
            *description.notes,
            *notes_of(evidence, question, points, chosen, settings["batch_size"], stops),
            *buffer_notes(facts, forecaster, max(2, num)),
            *split_notes(splits, question),
        ],
        not_measured=[*question.missing, *unmeasured(evidence, question)],
        recommendations=[
            recommend_devices(chosen, points, choice, evidence.gain_by_threads(question)),
            *recommend_buckets(cap, caps, num),
            recommend_buffers(facts),
            *rate,
        ],
        device=question.device,
        precision=str(question.settings["precision"]),
        rule=question.rule,
        batch_size=question.batch_size,
        points=points,
        bandwidth_bytes_per_second=None if link is None else link.bandwidth,
        latency_seconds=None if link is None else link.latency,
        link=_link_words(link, question),
        messages=_messages(evidence),
        wire=wire,
        num_devices=num,
        device_batch_size=settings["batch_size"],
        scaling=scaling,
        stops_paying_at=stops,
        num_seen=choice.seen,
        no_more_because=choice.because,
        bucket_cap_mb=cap,
        broadcast_buffers=not off,
        find_unused_parameters=bool(facts.unused_parameters),
        batches=batches,
        traffic=_traffic(evidence, wire, points, question),
        splits=splits,
        unequal=_unequal(forecaster, question),
        data_parallel=_data_parallel(evidence, question),
        critical_batch_size=question.critical_batch_size,
        num_samples=question.num_samples,
        settings={**question.settings, **settings},
        baseline=dict(description.baseline),
    )


def _forecaster(evidence: Evidence, question: DevicesQuestion, link: Link) -> Forecaster:
    return Forecaster(
        evidence=evidence,
        question=question,
        link=link,
        measured=link,
        broadcasts=question.broadcast_buffers,
        cap_mb=question.bucket_cap_mb,
    )


def _link_words(link: Link | None, question: DevicesQuestion) -> dict[str, Any]:
    return {
        "name": question.link_name or ("this machine's own" if link else "none"),
        "measured": question.link_name is None and link is not None,
        "spread": None if link is None else link.spread,
    }


def _traffic(
    evidence: Evidence, wire: list[dict[str, Any]], points: Sequence[dict[str, Any]], question: DevicesQuestion
) -> list[dict[str, Any]]:
    """Of an epoch at each number of devices that the data has a global batch for, in weak scaling."""
    numbers = sorted({point["num_devices"] for point in points if point["scaling"] == "weak"})
    size, samples = question.batch_size, question.num_samples or 0
    return [
        {"num_devices": num, **epoch_traffic(evidence.facts, wire, samples, size * num)}
        for num in numbers
        if size * num <= samples
    ]


def _messages(evidence: Evidence) -> list[dict[str, Any]]:
    return [
        {
            "num_devices": num,
            **asdict(each),
            "bus_bytes_per_second": bus_bandwidth(each.num_bytes, num, each.seconds),
        }
        for num, timed in sorted(evidence.together.items())
        for each in timed.messages
    ]


def _data_parallel(evidence: Evidence, question: DevicesQuestion) -> dict[str, Any] | None:
    found, asked = evidence.data_parallel, question.data_parallel()
    if found is None or asked is None:
        return None
    peaks = list(found.peak_bytes)
    return {
        "num_devices": asked.num_devices,
        "global_batch": asked.batch_size,
        "step_seconds": found.step_seconds,
        "peak_bytes": peaks,
        "coordinator_bytes": peaks[0] - max(peaks[1:]),
    }


def _unequal(forecaster: Forecaster | None, question: DevicesQuestion) -> dict[str, Any] | None:
    if forecaster is None or len(question.speeds) < 2:
        return None
    size = question.batch_size * (len(question.speeds) if "weak" in question.scalings else 1)
    return {"global_batch": size, **asdict(forecast_unequal(forecaster, size, list(question.speeds)))}
