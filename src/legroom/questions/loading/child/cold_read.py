"""What storage costs: the same batches with their files in the page cache, then dropped from it."""

import random
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import psutil
import torch
from torch.utils.data import IterableDataset

from legroom.child.built_job import BuiltJob
from legroom.clock import Clock, monotonic
from legroom.job import Batch
from legroom.questions.loading.child.cold_files import (
    cached_share,
    data_files,
    drop_from_cache,
    held_files,
    recording_opened,
)
from legroom.questions.loading.child.kept_lanes import close_kept
from legroom.questions.loading.child.lane_failures import LaneFailed
from legroom.questions.loading.child.loader_race import consumer
from legroom.questions.loading.child.open_lane import OpenLane, open_lane
from legroom.questions.loading.records import ColdRead, ReadCold

NUM_BATCHES = 8
"""Batches timed for each pass, beside those that are prepared ahead."""
RECORD_SECONDS = 0.6
NO_FILE_SECONDS = 0.2
"""Samples that open no file for so long are taken to open none."""
STILL_CACHED = 0.5
NO_FILE = "storage: no file was read for the samples looked at, so there is nothing to make cold"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One epoch of the chosen samples."""

    seconds: float
    batch_seconds: float
    read_bytes: int


def read_cold(request: ReadCold, built: BuiltJob, clock: Clock = monotonic) -> ColdRead:
    """Warm and cold seconds of a batch over the same samples, loader and step together."""
    dataset = built.train.dataset
    if built.job.loader is not None or isinstance(dataset, IterableDataset):
        return ColdRead(not_measured="storage: only a map-style data set can be asked for the same samples twice")
    indices, files = _chosen(request, built, clock)
    if not files:
        return ColdRead(not_measured=NO_FILE)
    try:
        warm, cold, share = _passes(request, built, indices, files, clock)
    except LaneFailed as failed:
        return ColdRead(num_files=len(files), not_measured=f"storage: {failed.reason}")
    if share > STILL_CACHED:
        reason = f"storage: {share:.0%} of the job's files stayed in memory when they were dropped from the cache"
        return ColdRead(num_files=len(files), not_measured=reason)
    return ColdRead(
        num_files=len(files),
        num_samples=len(indices),
        warm_batch_seconds=warm.batch_seconds,
        cold_batch_seconds=cold.batch_seconds,
        bytes_per_sample=cold.read_bytes / len(indices),
        bytes_per_second=cold.read_bytes / cold.seconds,
    )


def _chosen(request: ReadCold, built: BuiltJob, clock: Clock) -> tuple[list[int], list[str]]:
    """Samples for whole batches, each read once now, and the files that were read for them."""
    dataset, batch_size = built.train.dataset, request.batch_size
    wanted = batch_size * (NUM_BATCHES + max(1, request.lane.num_workers) * request.lane.prefetch_factor)
    order = random.Random(request.seed).sample(range(len(dataset)), min(wanted, len(dataset)))
    started, num_read = clock(), 0
    held = data_files(held_files())
    with recording_opened() as opened:
        for index in order:
            dataset[index]
            num_read += 1
            built.beat("cold files")
            spent = clock() - started
            if spent > NO_FILE_SECONDS and not held and not opened:
                break
            if spent > RECORD_SECONDS and num_read >= 3 * batch_size:
                break
    return order[: max(1, num_read // batch_size) * batch_size], data_files([*opened, *held])


def _passes(
    request: ReadCold, built: BuiltJob, indices: Sequence[int], files: Sequence[str], clock: Clock
) -> tuple[Pass, Pass, float]:
    """Warm, cold, and the share of the files that stayed cached; the same workers run both, as starting them costs."""
    close_kept(built)
    consume = consumer("together", built, torch.device(request.device), request.precision)
    with closing(open_lane(request, built, request.lane, clock, indices)) as lane:
        lane.start()
        warm = _pass(lane, consume, clock)
        drop_from_cache(files)
        share = cached_share(files)
        read = _read_bytes(lane)
        lane.take()
        cold = _pass(lane, consume, clock)
        return warm, replace(cold, read_bytes=_read_bytes(lane) - read), share


def _pass(lane: OpenLane, consume: Callable[[Batch], Any], clock: Clock) -> Pass:
    """The rest of an epoch whose first batch was taken already; its clock started when the workers did."""
    num_batches = lane.epoch_batches
    for _ in range(num_batches - 1):
        consume(lane.take())
    seconds = clock() - lane.epoch_began
    return Pass(seconds=seconds, batch_seconds=seconds / num_batches, read_bytes=0)


def _read_bytes(lane: OpenLane) -> int:
    return int(psutil.Process().io_counters().read_bytes) + _workers_read(lane)


def _workers_read(lane: OpenLane) -> int:
    return sum(psutil.Process(process.pid).io_counters().read_bytes for process in lane.processes)
