"""Sentences beside the numbers: what limits them, what they rest on, what is missing."""

from collections.abc import Sequence
from typing import Any

from legroom.questions.devices.evidence import Evidence
from legroom.questions.devices.records import DevicesQuestion
from legroom.questions.devices.wire import norm_note
from legroom.reports.numbers import quantity

MUCH = 1.1
"""Times its seconds alone, from which on neighbours that a device waits for are told."""


def notes_of(
    evidence: Evidence,
    question: DevicesQuestion,
    points: Sequence[dict[str, Any]],
    chosen: dict[str, Any],
    stops: int | None,
) -> list[str]:
    """What a reader has to know."""
    facts = evidence.facts
    notes = [*question.notes, "Batches lie ready on each device: the time of loading them is left out"]
    if question.device == "cpu":
        notes.append(
            f"A device is a process with {question.num_threads} thread here, so one of them has one core alone; "
            "legroom speed times a process that has all cores"
        )
    notes += _contention(evidence, question)
    notes += _batch_notes(points, question)
    notes += norm_note(facts, question.batch_size, chosen["batch_size"])
    if facts.unused_parameters:
        notes.append(
            f"{len(facts.unused_parameters)} trainable parameters got no gradient, the first "
            f"{facts.unused_parameters[0]}: "
            "DistributedDataParallel needs find_unused_parameters=True, which searches the graph in each step"
        )
    if facts.buffer_bytes:
        saved = quantity(facts.buffer_bytes, "bytes")
        notes.append(
            f"broadcast_buffers=False saves {saved} in {facts.num_buffer_messages} messages before every forward pass"
        )
    if stops is not None:
        notes.append(f"More devices stop paying at {stops:,}: twice as many are less than 1.3 times faster there")
    return [*notes, *_split_notes(evidence, question)]


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


def _split_notes(evidence: Evidence, question: DevicesQuestion) -> list[str]:
    """When a cut of the model itself pays."""
    memory, critical = question.memory, question.critical_batch_size
    if memory and memory["fixed_bytes"] + memory["bytes_per_sample"] > memory["budget_bytes"]:
        return ["Not one sample fits a device: shard the model (FSDP), or cut it; see the splits"]
    if critical is not None and question.batch_size > critical:
        return [
            f"The batch of {question.batch_size:,} is above the critical {critical:,.0f} already: only cuts that "
            "keep the "
            "global batch (strong scaling, FSDP, tensor, pipeline) still save time"
        ]
    return []


def unmeasured(evidence: Evidence, question: DevicesQuestion) -> list[str]:
    """What was not measured, and why."""
    found = []
    if not evidence.together and question.link_name is None:
        found.append(
            "more than one device: only one is visible, and no link is named. Name one for a forecast, as --link 10GbE"
        )
    if question.link_name is not None:
        found.append(f"the link {question.link_name}: its latency and bandwidth are a table's, or yours")
    if question.device == "cuda":
        found.append("utilisation of each GPU: legroom speed reads it")
        found.append("NCCL between several GPUs, unless points say so: its scaling is a forecast")
    return found
