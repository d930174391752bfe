"""The device alone: steps on a few real batches that already lie on it, and the copy that brings them there."""

import itertools
import statistics
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import torch

from legroom.child.built_job import BuiltJob
from legroom.clock import Clock
from legroom.job import Batch
from legroom.questions.loading.child.open_loader import OpenLoader
from legroom.questions.loading.records import INLINE, CompareLoaders, LoaderThroughput
from legroom.training.data.batch import move, num_bytes, num_rows

NUM_KEPT = 4
KEPT_BYTES = 2**28


def time_step(request: CompareLoaders, built: BuiltJob, clock: Clock) -> LoaderThroughput:
    """The device alone: steps on a few real batches that already lie on it, and the copy that brings them there."""
    device = torch.device(request.device)
    batches = _kept(request, built, clock)
    copies = _copy_seconds(batches, device, clock)
    placed = [move(batch, device) for batch in batches]
    started = clock()
    step = built.training_step(device, request.precision, lambda phase: None)
    endless = itertools.cycle(placed)
    for batch in itertools.islice(endless, 2):  # the first steps allocate, pick kernels and start threads
        step([batch])
    start_seconds = clock() - started
    windows = []
    for _ in range(request.num_rounds):
        built.beat("step")
        windows.append(_step_window(request, step, endless, device, clock))
    seconds, num_batches = [spent / count for spent, count, _ in windows], sum(count for _, count, _ in windows)
    median = statistics.median(seconds)
    return LoaderThroughput(
        lane=INLINE,
        batch_seconds=seconds,
        median_seconds=median,
        spread=(max(seconds) - min(seconds)) / median,
        num_batches=num_batches,
        main_cpu_seconds=sum(cpu for *_, cpu in windows) / num_batches,
        samples_per_batch=statistics.mean(num_rows(batch) for batch in batches),
        batch_bytes=max(num_bytes(batch) for batch in batches),
        start_seconds=start_seconds,
        copy_seconds=copies,
    )


def _step_window(
    request: CompareLoaders, step: Any, batches: Iterator[Batch], device: torch.device, clock: Clock
) -> tuple[float, int, float]:
    """(seconds, steps, core seconds) of one turn; waiting for a GPU takes a core too, which is not counted."""
    finish(device)
    started, count, cpu = clock(), 0, 0.0
    window = request.window_seconds if request.num_batches is None else 0.0
    while count < (request.num_batches or 2) or clock() - started < window:
        launched = time.process_time()
        loss = step([next(batches)])
        cpu += time.process_time() - launched
        count += 1
        if count % 8 == 0:
            float(loss)  # a CPU-GPU sync point: without it the queue of steps would outrun the clock
    finish(device)
    return clock() - started, count, cpu


def _kept(request: CompareLoaders, built: BuiltJob, clock: Clock) -> list[Batch]:
    """A few batches as training sees them, uneven ones included."""
    kept: list[Batch] = []
    with closing(OpenLoader(INLINE, built, request, clock=clock)) as loader:
        loader.start()
        deadline = clock() + 2 * request.window_seconds
        while len(kept) < NUM_KEPT and (not kept or clock() < deadline):
            kept.append(loader.take())
            if sum(num_bytes(batch) for batch in kept) > KEPT_BYTES:
                break
    return kept


def _copy_seconds(batches: list[Batch], device: torch.device, clock: Clock) -> float:
    if device.type == "cpu":
        return 0.0
    seconds = []
    for batch in batches * 3:
        finish(device)
        started = clock()
        move(batch, device)
        finish(device)
        seconds.append(clock() - started)
    return statistics.median(seconds)


def finish(device: torch.device) -> None:
    """Wait for what was launched on a GPU."""
    if device.type == "cuda":
        torch.cuda.synchronize()
