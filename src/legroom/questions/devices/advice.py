"""What more devices give, how many to take, and with which batch, rate and buckets."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from legroom.errors import NothingMeasured
from legroom.laws.communication import BUCKET_CAP_MB, Link, bus_bandwidth
from legroom.logbook import Records
from legroom.questions.base import Recommendation
from legroom.questions.devices.answer import DevicesAnswer
from legroom.questions.devices.batches import batch_rows, useful_speedup
from legroom.questions.devices.evidence import Evidence, gather
from legroom.questions.devices.forecast import SAME, Forecaster, best_cap, forecast_unequal
from legroom.questions.devices.notes import notes_of, unmeasured
from legroom.questions.devices.points import all_points
from legroom.questions.devices.records import BackwardTimes, DevicesQuestion
from legroom.questions.devices.splits import forecast_splits
from legroom.questions.devices.wire import buffers_off, epoch_traffic, wire_rows

PAYS = 1.3
"""Twice the devices pay where they reach the target so many times sooner: it costs 1.5 times as much at 1.3."""
SPLIT_NUMBERS = (2, 4, 8, 16, 64)
EVIDENCE = ["backward_times", "ranks_timed"]


def advise(records: Records, question: DevicesQuestion) -> DevicesAnswer:
    """The answer that the entries hold."""
    evidence, description = gather(records.entries, question), records.description()
    if question.batch_size not in evidence.alone:
        raise NothingMeasured("The logbook holds no step of one device at this batch size. Ask the question again")
    facts, link = evidence.facts, evidence.link(question)
    forecaster = None if link is None else _forecaster(evidence, question, link)
    points = all_points(evidence, question, forecaster)
    scaling, num, stops = choose(points, question)
    chosen = next(point for point in points if (point["num_devices"], point["scaling"]) == (num, scaling))
    off, _ = buffers_off(facts)
    cap, caps = question.bucket_cap_mb, dict[float | None, float]()
    if forecaster is not None and num > 1:
        cap, caps = best_cap(replace(forecaster, broadcasts=not off), num, chosen["batch_size"])
    wire, batches = wire_rows(facts, question, max(2, num)), batch_rows(points, question)
    settings = {"num_devices": num, "batch_size": max(1, round(chosen["batch_size"]))}
    return DevicesAnswer(
        job=records.head.job,
        machine=records.head.machine,
        seconds=records.seconds(),
        notes=[*records.notes, *description.notes, *notes_of(evidence, question, points, chosen, stops)],
        not_measured=unmeasured(evidence, question),
        recommendations=[
            _recommend_devices(chosen, points, stops),
            *_recommend_buckets(cap, caps, num),
            _recommend_buffers(facts),
            *_recommend_rate(batches, chosen, question),
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
        bucket_cap_mb=cap,
        broadcast_buffers=not off,
        batches=batches,
        traffic=_traffic(evidence, wire, points, question),
        splits=_splits(evidence, question, forecaster),
        unequal=_unequal(forecaster, question),
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
        broadcasts=question.broadcast_buffers,
        cap_mb=question.bucket_cap_mb,
    )


def choose(points: Sequence[dict[str, Any]], question: DevicesQuestion) -> tuple[str, int, int | None]:
    """Scaling, devices to take, and the first number that pays no more: doubling goes on while it pays.

    Where nobody knows the critical batch, a larger global batch has no known worth, so the strong speed-up decides.
    """
    known = [name for name in question.scalings if name == "strong" or question.critical_batch_size is not None]
    found = []
    for scaling in known or question.scalings:
        series = [point for point in points if point["scaling"] == scaling]
        best, stops = series[0], None
        for point in series[1:]:
            if useful_speedup(point, question) < needed(best, point) * useful_speedup(best, question):
                stops = point["num_devices"]
                break
            best = point
        inside = [point for point in series if point["num_devices"] <= min(best["num_devices"], question.num_most)]
        found.append((useful_speedup(inside[-1], question), scaling, inside[-1]["num_devices"], stops))
    _, scaling, num, stops = max(found, key=lambda each: each[0])
    return scaling, num, stops


def needed(before: dict[str, Any], after: dict[str, Any]) -> float:
    """How many times sooner it must be: PAYS for each doubling."""
    return float(1 + (PAYS - 1) * (after["num_devices"] / before["num_devices"] - 1))


def _recommend_devices(chosen: dict[str, Any], points: Sequence[dict[str, Any]], stops: int | None) -> Recommendation:
    num = chosen["num_devices"]
    if num == 1:
        because = (
            "a second device would not reach the target 1.3 times sooner" if stops == 2 else "no more may be taken"
        )
    else:
        how = "forecast" if chosen["predicted"] else "measured"
        because = f"{chosen['scaling']} speed-up of {chosen['speedup']:.3g} ({how})"
        because += f"; from {stops:,} on twice the devices are less than {PAYS} times faster" if stops else ""
    alike = [point["num_devices"] for point in points if point["scaling"] == chosen["scaling"]]
    beside = [each for each in alike if each <= 2 * num and 2 * each >= num]
    return Recommendation(
        name="num_devices", value=num, range=(min(beside), max(beside)), because=because, evidence=list(EVIDENCE)
    )


def _recommend_buckets(cap: float | None, caps: dict[float | None, float], num: int) -> list[Recommendation]:
    if not caps:
        return []
    least = min(caps.values())
    good = [each or BUCKET_CAP_MB for each, value in caps.items() if value <= SAME * least]
    because = f"steps of {num} devices are forecast within 2 % of the shortest, {least * 1e3:.3g} ms"
    return [
        Recommendation(
            name="bucket_cap_mb", value=cap, range=(min(good), max(good)), because=because, evidence=list(EVIDENCE)
        )
    ]


def _recommend_buffers(facts: BackwardTimes) -> Recommendation:
    off, because = buffers_off(facts)
    return Recommendation(name="broadcast_buffers", value=not off, range=None, because=because, evidence=EVIDENCE[:1])


def _recommend_rate(
    batches: Sequence[dict[str, Any]], chosen: dict[str, Any], question: DevicesQuestion
) -> list[Recommendation]:
    """The rate by LEGW where the global batch grows; the job's own where it stays."""
    own = float(question.settings["learning_rate"])
    row = next((row for row in batches if row["num_devices"] == chosen["num_devices"]), None)
    if chosen["scaling"] == "strong" or row is None or chosen["num_devices"] == 1:
        because = "the global batch stays, so the rate and its warm-up stay"
        return [Recommendation(name="learning_rate", value=own, range=None, because=because)]
    because = (
        f"LEGW: the root of {chosen['num_devices']} times the batch, and {row['warmup_epochs']:.3g} epochs of warm-up; "
        "a rule, not measured. legroom rate measures it"
    )
    return [Recommendation(name="learning_rate", value=row["learning_rate"], range=None, because=because)]


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


def _splits(evidence: Evidence, question: DevicesQuestion, forecaster: Forecaster | None) -> list[dict[str, Any]]:
    """The cuts of one global batch, beside data parallelism."""
    if forecaster is None:
        return []
    facts, memory, size = evidence.facts, question.memory, question.batch_size
    whole, scale = evidence.at(size), size / max(evidence.alone)
    rows: list[dict[str, Any]] = []
    for num in SPLIT_NUMBERS:
        if size / num < 1:
            break
        cuts = forecast_splits(
            whole,
            evidence.at(size / num),
            num,
            forecaster.link,
            layer_bytes=[round(scale * each) for each in facts.layer_bytes],
            parameter_bytes=facts.parameter_bytes,
            state_bytes=facts.state_bytes,
            activation_bytes=memory.get("bytes_per_sample", sum(facts.layer_bytes) / max(evidence.alone)) * size,
            budget_bytes=memory.get("budget_bytes"),
        )
        plain = forecaster.step(num, size / num).seconds
        rows += [{**asdict(cut), "data_parallel_seconds": plain} for cut in cuts]
    return rows


def _unequal(forecaster: Forecaster | None, question: DevicesQuestion) -> dict[str, Any] | None:
    if forecaster is None or len(question.speeds) < 2:
        return None
    size = question.batch_size * (len(question.speeds) if "weak" in question.scalings else 1)
    return {"global_batch": size, **asdict(forecast_unequal(forecaster, size, list(question.speeds)))}
