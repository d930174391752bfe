"""What crosses the wire in a step, by what the model is made of."""

from collections.abc import Mapping, Sequence
from typing import Any

from legroom.laws.communication import buckets_of
from legroom.questions.devices.records import BackwardTimes, DevicesQuestion

NUMBER_BYTES = 4
"""Of a statistic, of a count and of a loss."""
LOOK_BYTES, LOOK_MESSAGES = 4 * 8, 4
"""Of a look: two sums, a clock and whether to save, each of double length, in three messages; losses are the fourth."""


def wire_rows(facts: BackwardTimes, question: DevicesQuestion, num_devices: int) -> list[dict[str, Any]]:
    """Bytes and messages of a step, a row each: what every device shares, and what that puts on its link."""
    buckets = buckets_of(facts.gradient_bytes, facts.ready_seconds, question.bucket_cap_mb)
    gradients = sum(bucket.num_bytes for bucket in buckets)
    share = 2 * (num_devices - 1) / num_devices
    rows = [
        _row("gradient buckets", gradients, len(buckets), share, "each step, behind the backward pass"),
        _row(
            "buffers",
            facts.buffer_bytes,
            facts.num_buffer_messages,
            (num_devices - 1) / num_devices,
            "before each forward pass; broadcast_buffers=False saves it",
        ),
        _sync_row(facts, num_devices, share),
        _row(
            "count",
            NUMBER_BYTES,
            1,
            share,
            "each step, where batches weigh unequally: its samples or tokens",
        ),
        _row(
            "metrics",
            LOOK_BYTES + NUMBER_BYTES,
            LOOK_MESSAGES,
            share,
            f"about once a second: clocks, whether to end, {NUMBER_BYTES} bytes for the loss of each step since",
        ),
    ]
    return [{**row, "num_devices": num_devices} for row in rows if row["num_messages"]]


def _sync_row(facts: BackwardTimes, num_devices: int, share: float) -> dict[str, Any]:
    """Statistics of converted layers. Each device sends what it gathers to all others, not a share of it."""
    layers, features = len(facts.norm_features), sum(facts.norm_features)
    gathered, summed = NUMBER_BYTES * (2 * features + layers), NUMBER_BYTES * 2 * features
    when = "each pass, where layers are converted, which torch does on GPUs alone: statistics and their gradients"
    row = _row("SyncBatchNorm", gathered + summed, 2 * layers, share, when)
    return {**row, "link_bytes": round((num_devices - 1) * gathered + share * summed)}


def _row(what: str, num_bytes: int, num_messages: int, share: float, when: str) -> dict[str, Any]:
    return {
        "what": what,
        "num_bytes": num_bytes,
        "num_messages": num_messages,
        "link_bytes": round(share * num_bytes),
        "when": when,
    }


def epoch_traffic(
    facts: BackwardTimes, wire: Sequence[Mapping[str, Any]], num_samples: int, global_batch: float
) -> dict[str, float]:
    """Messages, bytes and operations of an epoch as table 3 of Y. You's talk counts them: one message an update.

        messages = samples / global batch      bytes = messages * model      ratio = operations / bytes

    `num_transfers` counts buckets one by one, as they travel.
    """
    updates = num_samples / global_batch
    gradients = next(row for row in wire if row["what"] == "gradient buckets")
    moved = updates * gradients["num_bytes"]
    operations = facts.flops_per_sample * num_samples
    return {
        "num_messages": updates,
        "num_transfers": updates * gradients["num_messages"],
        "bytes_moved": moved,
        "operations": operations,
        "operations_per_byte": operations / moved if moved else 0.0,
    }


def buffers_off(facts: BackwardTimes) -> tuple[bool, str]:
    """Whether buffers need no broadcast, and why."""
    if not facts.buffer_bytes:
        return True, "the model has no buffers"
    if facts.other_buffers:
        return False, f"steps change buffers that are no BatchNorm's: {', '.join(facts.other_buffers[:3])}"
    return True, (
        f"{facts.num_watched} steps changed no buffers but BatchNorm's, which training does not read, and rank 0, "
        "whose buffers a broadcast would hand out, keeps the same ones without it: broadcast once before an evaluation "
        "on all ranks"
    )
