"""How many devices to take: doubling goes on while it pays, among numbers that a run can have."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from legroom.questions.devices.batches import useful_speedup
from legroom.questions.devices.evidence import Evidence
from legroom.questions.devices.records import DevicesQuestion

PAYS = 1.3
"""Twice the devices pay where they reach the target so many times sooner: it costs 1.5 times as much at 1.3."""
AS_FAST = 1.05
"""Times that processes of one thread must beat one process with all their cores: below, the one is simpler."""
NO_MORE = "no more may be taken"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What to take, and why no more."""

    scaling: str
    num_devices: int
    stops: int | None
    """The first number that pays no more."""
    seen: int
    """The most that were looked at."""
    because: str
    """Why no more are taken."""


def choose(points: Sequence[dict[str, Any]], question: DevicesQuestion, evidence: Evidence) -> Choice:
    """The scaling, and the devices up to which doubling pays.

    Where nobody knows the critical batch, a larger global batch has no known worth, so the strong speed-up decides.
    """
    known = [name for name in question.scalings if name == "strong" or question.critical_batch_size is not None]
    found = [_doubled(points, name, question) for name in known or question.scalings]
    speedup, best = max(found, key=lambda each: each[0])
    if not beaten_by_threads(evidence, question, best.num_devices, speedup):
        return best
    gain = evidence.gain_by_threads(question)
    because = f"a process with all cores is {gain:.3g} times as fast as one with a thread, and several of those are not"
    return replace(best, num_devices=1, because=because)


def _doubled(points: Sequence[dict[str, Any]], scaling: str, question: DevicesQuestion) -> tuple[float, Choice]:
    """The devices up to which doubling pays in that scaling, and how many times sooner they reach the target."""
    alike = [point for point in points if point["scaling"] == scaling]
    series = [point for point in alike if is_possible(point, question)]
    best, stops, because = series[0], None, _why_no_more(alike, series, question)
    for point in series[1:]:
        if useful_speedup(point, question) < needed(best, point) * useful_speedup(best, question):
            stops, because = point["num_devices"], _too_little(best, point)
            break
        best = point
    last = [point for point in series if point["num_devices"] <= min(best["num_devices"], question.num_most)][-1]
    choice = Choice(
        scaling=scaling,
        num_devices=last["num_devices"],
        stops=stops,
        seen=series[-1]["num_devices"],
        because=because if last is best else NO_MORE,
    )
    return useful_speedup(last, question), choice


def _too_little(best: dict[str, Any], point: dict[str, Any]) -> str:
    if point["num_devices"] == 2:
        return f"a second device would not reach the target {PAYS} times sooner"
    return f"{point['num_devices']:,} devices would not reach the target {needed(best, point):.3g} times sooner"


def _why_no_more(alike: Sequence[dict[str, Any]], series: Sequence[dict[str, Any]], question: DevicesQuestion) -> str:
    """Why the numbers that a run can have end where they do."""
    most = series[-1]["num_devices"]
    later = next((point for point in alike if point["num_devices"] > most), None)
    if most >= question.num_most:
        return NO_MORE
    if later is None:
        return (
            f"{question.batch_size:,} samples leave none for each of more" if len(alike) > 1 else "no more are forecast"
        )
    if later["batch_size"] != round(later["batch_size"]):
        return f"{later['global_batch']:,.0f} samples cannot be shared out evenly to {later['num_devices']:,} devices"
    return (
        f"an update of {later['num_devices']:,} devices takes {later['global_batch']:,.0f} samples, and there are "
        f"{question.num_samples:,}"
    )


def is_possible(point: dict[str, Any], question: DevicesQuestion) -> bool:
    """Whether a run can have it: whole samples on each device, and data enough for one update."""
    if point["num_devices"] == 1:
        return True
    is_whole = point["batch_size"] == round(point["batch_size"])
    return is_whole and (question.num_samples is None or point["global_batch"] <= question.num_samples)


def beaten_by_threads(evidence: Evidence, question: DevicesQuestion, num: int, speedup: float) -> bool:
    """Whether one process with all cores of this machine is as fast as so many of them with a thread each."""
    gain = evidence.gain_by_threads(question)
    return gain is not None and 1 < num <= question.num_here and speedup < AS_FAST * gain


def needed(before: dict[str, Any], after: dict[str, Any]) -> float:
    """How many times sooner it must be: PAYS for each doubling."""
    return float(1 + (PAYS - 1) * (after["num_devices"] / before["num_devices"] - 1))
