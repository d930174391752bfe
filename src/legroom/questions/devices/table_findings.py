"""What published times say by our laws: weak and strong scaling, forecasts, peaks, communication recomputed."""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from legroom.laws.communication import bus_bandwidth, strong_speedup, weak_speedup
from legroom.questions.devices.answer import TableAnswer
from legroom.questions.devices.table import Published, Time, read_table

GB, GIB = 1e9, 2**30
ROUNDED = 1e-3
"""Relative difference below which a published number is the one recomputed."""
ROUNDED_SPEEDUP = 0.01
FAR_APART = 0.1
"""Relative difference of two timings of the same job that is told."""


def answer_table(path: Path, machine: str) -> TableAnswer:
    """All that the file's times tell, without running anything."""
    table = read_table(path)
    weak, strong = list(_weak(table)), list(_strong(table))
    points = weak or list(_strong_points(table))
    forecasts, throughputs = list(_forecasts(table)), list(_throughputs(table))
    communication = list(_communication(table))
    return TableAnswer(
        job=table.title,
        machine=machine,
        seconds=0.0,
        notes=[
            *_scaling_notes(weak, strong),
            *_speedup_notes(points),
            *_peak_notes(throughputs, table),
            *_repeat_notes(table),
            *_forecast_notes(forecasts),
            *_communication_notes(communication),
        ],
        not_measured=["anything: these are published times"],
        points=points,
        forecasts=forecasts,
        throughputs=throughputs,
        strong=strong,
        communication=communication,
    )


def _several(table: Published) -> Iterator[tuple[Time, Time]]:
    """Each time of several devices with that of one in the same table, at the same batch per device."""
    for time in table.times:
        one = table.find(time.table, 1, time.batch_size)
        if time.num_devices > 1 and one is not None:
            yield time, one


def _weak(table: Published) -> Iterator[dict[str, Any]]:
    for time, one in _several(table):
        step, alone = time.seconds / table.updates(time), one.seconds / table.updates(one)
        speedup = weak_speedup(alone, step, time.num_devices)
        yield {
            "table": time.table,
            "num_devices": time.num_devices,
            "batch_size": time.batch_size,
            "scaling": "weak",
            "epoch_seconds": time.seconds,
            "step_seconds": step,
            "speedup": speedup,
            "published_speedup": time.speedup,
            "efficiency": speedup / time.num_devices,
            "exposed_seconds": max(0.0, step - alone),
            "difference_seconds": step - alone,
            "epoch_difference_seconds": time.seconds - one.seconds / time.num_devices,
            "predicted": False,
            "range": None,
        }


def _strong_points(table: Published) -> Iterator[dict[str, Any]]:
    """The same global batch on one device and on several; what of a step is exposed, only a device alone could tell."""
    for time, one in _shared(table):
        step, alone = time.seconds / table.updates(time), one.seconds / table.updates(one)
        speedup = strong_speedup(alone, step)
        yield {
            "table": time.table,
            "num_devices": time.num_devices,
            "batch_size": time.batch_size,
            "scaling": "strong",
            "epoch_seconds": time.seconds,
            "step_seconds": step,
            "speedup": speedup,
            "published_speedup": time.speedup,
            "efficiency": speedup / time.num_devices,
            "exposed_seconds": None,
            "difference_seconds": step - alone / time.num_devices,
            "epoch_difference_seconds": time.seconds - one.seconds / time.num_devices,
            "predicted": False,
            "range": None,
        }


def _shared(table: Published) -> Iterator[tuple[Time, Time]]:
    """Each time of several devices with that of one in the same table, at the same global batch."""
    for time in table.times:
        one = table.find(time.table, 1, time.batch_size * time.num_devices)
        if time.num_devices > 1 and one is not None:
            yield time, one


def _strong(table: Published) -> Iterator[dict[str, Any]]:
    """Rows of one table with the same global batch, of which one is on one device."""
    for time, one in _shared(table):
        yield {
            "table": time.table,
            "num_devices": time.num_devices,
            "global_batch": one.batch_size,
            "one_seconds": one.seconds,
            "seconds": time.seconds,
            "speedup": strong_speedup(one.seconds, time.seconds),
        }


def _forecasts(table: Published) -> Iterator[dict[str, Any]]:
    """From one and two devices: communication as if messages alone cost time, and as if bytes alone did.

    2 (N - 1) messages of a ring: N - 1 times those of two devices. 2 (N - 1) / N of the bytes: 2 (N - 1) / N times.
    """
    for time, one in _several(table):
        two = table.find(time.table, 2, time.batch_size)
        if time.num_devices == 2 or two is None:
            continue
        num = time.num_devices
        alone, pair = one.seconds / table.updates(one), two.seconds / table.updates(two)
        latency = (alone + (num - 1) * (pair - alone)) * table.updates(time)
        bandwidth = (alone + 2 * (num - 1) / num * (pair - alone)) * table.updates(time)
        low, high = sorted((latency, bandwidth))
        outside = max(0.0, time.seconds / high - 1, low / time.seconds - 1)
        yield {
            "table": time.table,
            "num_devices": num,
            "batch_size": time.batch_size,
            "seconds": time.seconds,
            "linear_seconds": one.seconds / num,
            "latency_only_seconds": latency,
            "bandwidth_only_seconds": bandwidth,
            "inside": outside == 0,
            "outside_share": outside,
        }


def _throughputs(table: Published) -> Iterator[dict[str, Any]]:
    flops, peak = table.facts.get("flops_per_sample"), table.facts.get("boost_flops", table.facts.get("peak_flops"))
    for time in table.times:
        if time.num_devices == 1:
            throughput = table.facts["num_samples"] / time.seconds
            reached = None if flops is None else throughput * flops
            yield {
                "table": time.table,
                "batch_size": time.batch_size,
                "samples_per_second": throughput,
                "flops_per_second": reached,
                "peak_share": None if reached is None or peak is None else reached / peak,
            }


def _communication(table: Published) -> Iterator[dict[str, Any]]:
    """Published seconds and bandwidths, with the time of one device that they subtract, in both units."""
    for time in table.times:
        if time.communication_seconds is None or time.num_devices == 1:
            continue
        ones = [each for each in table.times if each.num_devices == 1 and each.batch_size == time.batch_size]
        by_table = {one.table: time.seconds - one.seconds / time.num_devices for one in ones}
        used = next((name for name, value in by_table.items() if _same(value, time.communication_seconds)), None)
        seconds = time.communication_seconds / table.updates(time)
        pace = bus_bandwidth(table.gradient_bytes, time.num_devices, seconds)
        others = {
            each.table: each.seconds - one.seconds / time.num_devices
            for each, one in _several(table)
            if (each.num_devices, each.batch_size) == (time.num_devices, time.batch_size)
        }
        yield {
            "num_devices": time.num_devices,
            "batch_size": time.batch_size,
            "published_seconds": time.communication_seconds,
            "subtracts": used,
            "same_table_seconds": others,
            "published_bandwidth": time.bandwidth,
            "gb_per_second": pace / GB,
            "gib_per_second": pace / GIB,
            "published_unit": _unit(time.bandwidth, pace),
            "same_table_gb_per_second": {
                name: bus_bandwidth(table.gradient_bytes, time.num_devices, value / table.updates(time)) / GB
                for name, value in others.items()
                if value > 0
            },
        }


def _unit(published: float | None, pace: float) -> str | None:
    if published is None:
        return None
    return "GB/s" if _same(published, pace / GB) else "GiB/s" if _same(published, pace / GIB) else "neither"


def _same(first: float, second: float, share: float = ROUNDED) -> bool:
    return abs(first - second) <= share * abs(second)


def _scaling_notes(points: Sequence[dict[str, Any]], strong: Sequence[dict[str, Any]]) -> Iterator[str]:
    if points:
        yield (
            "This is weak scaling: the batch per device stays and the global batch grows with the devices. An "
            "epoch ends "
            "sooner only because it has fewer updates; the work of an update grows (J. L. Gustafson), it is not "
            "fixed (G. M. "
            "Amdahl)"
        )
    if not points and not strong:
        yield (
            "No time of several devices has one of one device beside it, in the same table at the same batch per "
            "device or at the same global batch: there is nothing to compare"
        )
    for row in strong:
        kind = "a slowdown" if row["speedup"] < 1 else "a gain"
        yield (
            f"Strong scaling read from {row['table']}, a global batch of {row['global_batch']:,}: "
            f"{row['one_seconds']:.2f} s "
            f"on one device, {row['seconds']:.2f} s on {row['num_devices']}: {row['speedup']:.2f} times, {kind}"
        )


def _speedup_notes(points: Sequence[dict[str, Any]]) -> Iterator[str]:
    for row in points:
        published = row["published_speedup"]
        if published is not None and not _same(published, row["speedup"], ROUNDED_SPEEDUP):
            yield (
                f"The published speed-up of {row['num_devices']} devices at {row['batch_size']} each, "
                f"{published:.4g}, is "
                f"not that of its own times, {row['speedup']:.4g}"
            )


def _peak_notes(rows: Sequence[dict[str, Any]], table: Published) -> Iterator[str]:
    peak = table.facts.get("boost_flops", table.facts.get("peak_flops", 0.0))
    for row in rows:
        if row["peak_share"] is not None and row["peak_share"] > 1:
            yield (
                f"{row['table']} at a batch of {row['batch_size']}: {row['samples_per_second']:,.0f} samples/s are "
                f"{row['flops_per_second'] / 1e12:.1f} TFLOP/s, above the {peak / 1e12:.1f} that a {table.device} "
                "can reach. It "
                "cannot be true: most likely the clock was read before the device had ended"
            )


def _repeat_notes(table: Published) -> Iterator[str]:
    ones = [time for time in table.times if time.num_devices == 1]
    for first, second in itertools.combinations(ones, 2):
        low, high = sorted((first.seconds, second.seconds))
        if first.batch_size == second.batch_size and 1 - low / high > FAR_APART:
            yield (
                f"One device at a batch of {first.batch_size} takes {first.seconds:.1f} s in {first.table} and "
                f"{second.seconds:.1f} s in {second.table}, {1 - low / high:.0%} apart: the same job, so the "
                "spread is that large"
            )


def _forecast_notes(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    for row in rows:
        low, high = sorted((row["latency_only_seconds"], row["bandwidth_only_seconds"]))
        place = "between them" if row["inside"] else f"{row['outside_share']:.1%} outside"
        yield (
            f"{row['num_devices']} devices at {row['batch_size']} each, from one and two: {low:.2f} to {high:.2f} s by "
            f"bandwidth alone and latency alone; {row['seconds']:.2f} s was timed, {place}. Linear scaling would say "
            f"{row['linear_seconds']:.2f} s, {1 - row['linear_seconds'] / row['seconds']:.0%} too little"
        )


def _communication_notes(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    if used := sorted({row["subtracts"] for row in rows if row["subtracts"]}):
        others = sorted({name for row in rows for name in row["same_table_seconds"]} - set(used))
        yield (
            f"The published communication is T_N - T_1 / N with T_1 of {', '.join(used)}"
            + (f", not of {', '.join(others)}, which timed one device together with several" if others else "")
        )
    found = {row["published_unit"] for row in rows if row["published_unit"]}
    if "neither" in found:
        yield (
            "Published bandwidths are neither GB/s (1e9 bytes) nor GiB/s (2^30) of the communication beside them, as "
            "2(N-1)/N * bytes / seconds of an update"
        )
    if units := sorted(found - {"neither"}):
        yield (
            f"The published bandwidths are {', '.join(units)} as recomputed: GB/s count 1e9 bytes, GiB/s 2^30, 7 % "
            "more. "
            "A text that divides by 2^30 and writes GB/s mixes the two"
        )
