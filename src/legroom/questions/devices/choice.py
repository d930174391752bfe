"""How many devices to take: doubling goes on while it pays, among numbers that a run can have."""

from collections.abc import Sequence
from typing import Any

from legroom.questions.devices.batches import useful_speedup
from legroom.questions.devices.evidence import Evidence
from legroom.questions.devices.records import DevicesQuestion

PAYS = 1.3
"""Twice the devices pay where they reach the target so many times sooner: it costs 1.5 times as much at 1.3."""
AS_FAST = 1.05
"""Times that processes of one thread must beat one process with all their cores: below, the one is simpler."""


def choose(
    points: Sequence[dict[str, Any]], question: DevicesQuestion, evidence: Evidence
) -> tuple[str, int, int | None, int]:
    """Scaling, devices to take, the first number that pays no more, and the most that were looked at.

    Where nobody knows the critical batch, a larger global batch has no known worth, so the strong speed-up decides.
    """
    known = [name for name in question.scalings if name == "strong" or question.critical_batch_size is not None]
    found = []
    for scaling in known or question.scalings:
        series = [point for point in points if point["scaling"] == scaling and is_possible(point, question)]
        best, stops = series[0], None
        for point in series[1:]:
            if useful_speedup(point, question) < needed(best, point) * useful_speedup(best, question):
                stops = point["num_devices"]
                break
            best = point
        inside = [point for point in series if point["num_devices"] <= min(best["num_devices"], question.num_most)]
        seen = series[-1]["num_devices"]
        found.append((useful_speedup(inside[-1], question), scaling, inside[-1]["num_devices"], stops, seen))
    speedup, scaling, num, stops, seen = max(found, key=lambda each: each[0])
    return scaling, 1 if beaten_by_threads(evidence, question, num, speedup) else num, stops, seen


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
