"""What other batch sizes would take, by the factors that a plan was made of."""

import math
from collections.abc import Mapping
from typing import Any

from legroom.laws.time_to_target import (
    compute_seconds,
    largest_batch,
    load_seconds,
    pass_seconds,
    seconds_to_target,
    step_seconds,
    steps_to_target,
    update_size,
)
from legroom.laws.what_if import at_number, exposed_seconds

OCTAVES = (-2, -1, 0, 1, 2)
"""Around the batch that was chosen."""


def batch_table(factors: Mapping[str, Any], batch_size: Any, *, kept: bool = False) -> list[dict[str, Any]]:
    """Rows for batches around the plan's own; none where its answer kept no factors.

    kept: whether the job's own settings stay, so that none of the rows is what is to be run.
    """
    needed = ("least_steps", "sizes", "seconds", "update", "evaluation", "num_evaluations")
    if batch_size is None or any(factors.get(name) is None for name in needed) or not factors["sizes"]:
        return []
    sizes = [max(1, round(batch_size * 2.0**octave)) for octave in OCTAVES]
    rows = [_row(factors, size) for size in dict.fromkeys(sizes) if size <= _most(factors)]
    return [{**row, "chosen": row["batch_size"] == batch_size and not kept} for row in rows]


def _most(factors: Mapping[str, Any]) -> float:
    memory = [factors.get(name) for name in ("device_bytes", "fixed_bytes", "bytes_per_sample")]
    return float("inf") if None in memory or not memory[2] else largest_batch(*memory)  # type: ignore[arg-type]


def _row(factors: Mapping[str, Any], batch_size: int) -> dict[str, Any]:
    """Updates, seconds of one and of all, at that batch of a pass."""
    size, own = (
        update_size(each, factors.get("num_passes") or 1, factors.get("num_devices") or 1)
        for each in (batch_size, factors.get("batch_size") or batch_size)
    )
    fewest, most = _steps_range(factors, size, own)
    at_own = _steps_range(factors, own, own)[1]
    slowdown, exposed = _together(factors)
    compute = slowdown * compute_seconds(batch_size, factors["sizes"], factors["seconds"])
    one_pass = pass_seconds(compute, _load(factors, batch_size), factors.get("num_workers") or 0)
    step = step_seconds(factors.get("num_passes") or 1, one_pass, factors["update"], exposed)
    ends = []
    for num_steps in (fewest, most):
        looks = max(1.0, num_steps * size / (at_own * own) * factors["num_evaluations"])  # as often in samples
        ends.append(seconds_to_target(num_steps, step, looks, factors["evaluation"]))
    return {
        "batch_size": batch_size,
        "num_steps": most,
        "num_steps_range": (fewest, most),
        "step_seconds": step,
        "seconds": ends[1],
        "seconds_range": (ends[0], ends[1]),
    }


def _steps_range(factors: Mapping[str, Any], size: float, own: float) -> tuple[float, float]:
    """Updates at that size of an update: one number twice, or both ends where nobody knows the critical batch size.

    Then all that is known are the updates at the plan's own size; at another they are as many, or as many samples.
    """
    least, critical = factors["least_steps"], factors.get("critical_batch_size")
    if critical is None:
        return least * min(1.0, own / size), least * max(1.0, own / size)
    steps = steps_to_target(size, least, critical)
    return steps, steps


def _together(factors: Mapping[str, Any]) -> tuple[float, float]:
    """How many times as long a pass takes on several devices, and the seconds in which they wait for one another."""
    num, numbers = factors.get("num_devices") or 1, factors.get("numbers")
    if num == 1 or not numbers:
        return 1.0, 0.0
    slowdown, extra = (at_number(num, numbers, factors[name]) for name in ("slowdowns", "extras"))
    compute = slowdown * compute_seconds(factors["batch_size"], factors["sizes"], factors["seconds"])
    link = (factors.get("latency") or 0.0, factors.get("bandwidth") or math.inf)
    return slowdown, max(0.0, exposed_seconds(compute, factors["parameter_bytes"], num, *link) + extra)


def _load(factors: Mapping[str, Any], batch_size: int) -> float:
    """Devices of one host share its cores."""
    num, workers = factors.get("num_devices") or 1, factors.get("num_workers") or 0
    names = ("worker_seconds", "contention", "coherence", "core_seconds")
    rest = (factors.get(name) or 0.0 for name in names)
    return load_seconds(num * batch_size, num * workers, (factors.get("inline_seconds") or 0.0) / num, *rest)
