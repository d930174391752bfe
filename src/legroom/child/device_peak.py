"""Measures what a device can do at best: matrix products and copies a second, the ceiling for every other number."""

import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import psutil
import torch

from legroom.child.built_job import BuiltJob
from legroom.clock import Clock, monotonic
from legroom.errors import UsageError
from legroom.host.limits import read_limits
from legroom.requests import DeviceSpeed, MeasureDevice

MIN_REPEATS, MAX_REPEATS = 5, 50
MIN_MATRIX, MAX_MATRIX = 128, {"cpu": 4096}
"""Rows of the smallest and, by device type, the largest square matrix tried; accelerators go to 16384."""
MIN_COPY_BYTES, MAX_COPY_BYTES = 32 * 2**20, {"cpu": 256 * 2**20}
"""Copies must not fit a cache: an H200 has 60 MB, most servers below 512 MB. Accelerators copy 1 GiB."""

Rate = dict[str, float]
"""`best` and `median` amount a second, `spread` of the repeats, `num_repeats`, and the size used."""


def measure_device(request: MeasureDevice, built: BuiltJob) -> DeviceSpeed:
    """What the device in question can do."""
    return DeviceSpeed(values=device_speeds(request.device))


def device_speeds(device: str, seconds: float = 2.0, clock: Clock = monotonic) -> dict[str, Any]:
    """Peak matmul FLOP/s by number format and copy bytes/s of a device, within about `seconds`.

    `best` is the fastest call seen, `median` what short bursts reach; long runs may settle below, as a device heats up.
    A copy counts bytes read plus bytes written; between host and device it counts the bytes that cross.
    """
    place = _usable(device)
    stopwatch, started, others_before = Stopwatch(place, clock), clock(), _core_seconds_of_others()
    _warm_up(place, stopwatch, seconds / 8)
    found, not_measured = _measure_all(place, stopwatch, seconds)
    elapsed = clock() - started
    return {
        "device": str(place),
        "name": _name(place),
        "num_threads": torch.get_num_threads(),
        "torch_version": torch.__version__,
        "tf32_allowed": torch.backends.cuda.matmul.fp32_precision == "tf32" if place.type == "cuda" else None,
        **found,
        "spread_is": "interquartile range / median",
        "seconds": elapsed,
        "not_measured": not_measured,
        "notes": _notes(found, (_core_seconds_of_others() - others_before) / elapsed),
    }


def _measure_all(place: torch.device, stopwatch: "Stopwatch", seconds: float) -> tuple[dict[str, Rate], list[str]]:
    """Every rate that could be measured, and a sentence for each that could not."""
    measures = _measures(place)
    found: dict[str, Rate] = {}
    not_measured: list[str] = []
    for name, measure in measures.items():
        try:
            found[name] = measure(place, stopwatch, seconds / len(measures))
        except RuntimeError as error:  # out of memory, a format without kernels: the others still count
            not_measured.append(f"{name} was not measured: {str(error).splitlines()[0]}")
    return found, not_measured


class Stopwatch:
    """Times calls on a device to their end: without the waits an accelerator's time is that of the launch alone."""

    def __init__(self, place: torch.device, clock: Clock) -> None:
        self.place, self.clock = place, clock

    def time(self, call: Callable[[], Any]) -> float:
        """Seconds of one call."""
        self._wait()
        start = self.clock()
        call()
        self._wait()
        return self.clock() - start

    def fastest(self, call: Callable[[], Any]) -> float:
        """Seconds of the faster of two calls after a warm-up: a single one may meet a hiccup of the system."""
        self.time(call)
        return min(self.time(call) for _ in range(2))

    def rate(self, call: Callable[[], Any], amount: float, budget_seconds: float) -> Rate:
        """Amount of work a second over repeated calls; the first call, which warms up, is thrown away."""
        self.time(call)
        durations: list[float] = []
        while len(durations) < MIN_REPEATS or (sum(durations) < budget_seconds and len(durations) < MAX_REPEATS):
            durations.append(self.time(call))
        low, middle, high = statistics.quantiles((amount / duration for duration in durations), n=4, method="inclusive")
        spread = (high - low) / middle
        return {"median": middle, "best": amount / min(durations), "spread": spread, "num_repeats": len(durations)}

    def _wait(self) -> None:
        if self.place.type != "cpu":
            torch.accelerator.synchronize(self.place)


def _warm_up(place: torch.device, stopwatch: Stopwatch, seconds: float) -> None:
    """Keep the device busy until it runs evenly.

    On a 16-core host 3 of 6 processes without this saw less than a quarter of the fp32 rate, 0 of 6 with it.
    """
    call = _product(place, torch.float32, 512)
    end = stopwatch.clock() + seconds
    while stopwatch.clock() < end:
        stopwatch.time(call)


Measure = Callable[[torch.device, Stopwatch, float], Rate]


def _measures(place: torch.device) -> dict[str, Measure]:
    """What is worth measuring on this kind of device, by name."""
    chosen: dict[str, Measure] = {
        "matmul_fp32_flops_per_second": partial(_measure_matmul, dtype=torch.float32),
        "matmul_bf16_flops_per_second": partial(_measure_matmul, dtype=torch.bfloat16),
        "copy_bytes_per_second": _measure_copy,
    }
    if place.type != "cpu":
        chosen["matmul_fp16_flops_per_second"] = partial(_measure_matmul, dtype=torch.float16)
        chosen["host_to_device_pageable_bytes_per_second"] = partial(_measure_upload, pinned=False)
    if place.type == "cuda":
        chosen["matmul_tf32_flops_per_second"] = partial(_measure_matmul, dtype=torch.float32, tf32=True)
        chosen["host_to_device_pinned_bytes_per_second"] = partial(_measure_upload, pinned=True)
    return chosen


def _measure_matmul(
    place: torch.device, stopwatch: Stopwatch, budget_seconds: float, dtype: torch.dtype, tf32: bool = False
) -> Rate:
    """FLOP/s of square products of the size that runs best: small ones do not fill a device, large ones heat it."""
    with _fp32_precision("tf32" if tf32 else "ieee"):
        rates = _try_sizes(place, stopwatch, dtype, longest_seconds=budget_seconds / 16)
        size = max(rates, key=lambda size: rates[size])
        rate = stopwatch.rate(_product(place, dtype, size), 2.0 * size**3, budget_seconds / 2)
    # The ceiling is the fastest product seen at all: in 23 repeats an H200 fell from 795 to 690 TFLOP/s (bf16, 16384).
    return {**rate, "best": max(rate["best"], *rates.values()), "matrix_size": size}


def _try_sizes(
    place: torch.device, stopwatch: Stopwatch, dtype: torch.dtype, longest_seconds: float
) -> dict[int, float]:
    """FLOP/s by matrix size, doubled until a product outlasts the limit.

    The next one's time is not foretold from the last: on two cores shared with other processes every small product
    took 16 ms, probably a turn of the scheduler, which made it look a thousand times slower than the device is.
    """
    rates: dict[int, float] = {}
    size, seconds = MIN_MATRIX, 0.0
    while size <= MAX_MATRIX.get(place.type, 16384) and seconds <= longest_seconds:
        seconds = stopwatch.fastest(_product(place, dtype, size))
        rates[size] = 2.0 * size**3 / seconds
        size *= 2
    return rates


def _product(place: torch.device, dtype: torch.dtype, size: int) -> Callable[[], Any]:
    # Random numbers, since zeros draw less power and let a card clock higher than training ever will.
    left, right = (torch.randn(size, size, device=place).to(dtype) for _ in range(2))
    return partial(torch.mm, left, right, out=torch.empty_like(left))


@contextmanager
def _fp32_precision(precision: str) -> Iterator[None]:
    """fp32 products on CUDA as fp32 ("ieee") or rounded to TF32, whatever this process had chosen before."""
    before = torch.backends.cuda.matmul.fp32_precision
    torch.backends.cuda.matmul.fp32_precision = precision
    try:
        yield
    finally:
        torch.backends.cuda.matmul.fp32_precision = before


def _measure_copy(place: torch.device, stopwatch: Stopwatch, budget_seconds: float) -> Rate:
    num_bytes = _copy_bytes(place)
    source = torch.ones(num_bytes // 4, device=place)
    call = partial(torch.empty_like(source).copy_, source)
    return {**stopwatch.rate(call, 2.0 * num_bytes, budget_seconds), "num_bytes": num_bytes}


def _measure_upload(place: torch.device, stopwatch: Stopwatch, budget_seconds: float, pinned: bool) -> Rate:
    num_bytes = _copy_bytes(torch.device("cpu"))
    source = torch.ones(num_bytes // 4, pin_memory=pinned)
    call = partial(torch.empty(num_bytes // 4, device=place).copy_, source, non_blocking=True)
    return {**stopwatch.rate(call, float(num_bytes), budget_seconds), "num_bytes": num_bytes}


def _core_seconds_of_others() -> float:
    """Seconds that other processes, and other guests of the host, ever ran on the cores this process may use."""
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    times = [core for index, core in enumerate(psutil.cpu_times(percpu=True)) if index in cores]
    busy = sum(t.user + t.system + getattr(t, "nice", 0.0) + getattr(t, "steal", 0.0) for t in times)
    return float(busy) - time.process_time()


def _notes(found: dict[str, Rate], num_cores_of_others: float) -> list[str]:
    """Signs that the rates are not the device's best: a ceiling must not be built on them."""
    notes = []
    if num_cores_of_others > 0.1 * torch.get_num_threads():
        notes.append(
            f"Other processes used {num_cores_of_others:.1f} cores meanwhile: the device can do more than this."
        )
    for name, rate in found.items():
        if rate["best"] > 2 * rate["median"]:
            notes.append(f"{name}: half of the repeats ran at less than half of the best rate.")
    return notes


def _copy_bytes(place: torch.device) -> int:
    """Bytes to copy: more than caches hold, less than would disturb what else runs in this memory."""
    free = torch.cuda.mem_get_info(place)[0] if place.type == "cuda" else read_limits().available_bytes
    num_bytes = min(MAX_COPY_BYTES.get(place.type, 2**30), free // 16) // 4 * 4
    if num_bytes < MIN_COPY_BYTES:
        raise RuntimeError(f"only {free} bytes of memory are free, and a copy that small would run in a cache")
    return num_bytes


def _usable(device: str) -> torch.device:
    try:
        place = torch.device(device)
        torch.empty(1, device=place)
    except (RuntimeError, AssertionError) as error:  # torch built without CUDA fails an assertion
        reason = str(error).splitlines()[0]
        raise UsageError(
            f"The device {device!r} cannot be used here ({reason}). Choose cpu or one that exists"
        ) from None
    return place


def _name(place: torch.device) -> str:
    if place.type == "cuda":
        return torch.cuda.get_device_name(place)
    return f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}" if place.type == "cpu" else place.type
