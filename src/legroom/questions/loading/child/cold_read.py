"""What storage costs: the same batches with their files in the page cache, then dropped from it."""

import random
from collections.abc import Callable, Sequence
from contextlib import closing
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
from legroom.questions.loading.child.comparison import close_kept, consumer
from legroom.questions.loading.child.failures import LoaderFailed
from legroom.questions.loading.child.open_loader import OpenLoader
from legroom.questions.loading.records import ColdRead, ReadCold

NUM_BATCHES = 8
"""Batches timed for each pass, beside those that are prepared ahead."""
RECORD_SECONDS = 0.6
NO_FILE_SECONDS = 0.2
"""Samples that open no file for so long are taken to open none."""
STILL_CACHED = 0.5
NO_FILE = "storage: no file was read for the samples looked at, so there is nothing to make cold"


def read_cold(request: ReadCold, built: BuiltJob, clock: Clock = monotonic) -> ColdRead:
    """Warm and cold seconds of a batch over the same samples, loader and step together."""
    dataset = built.train.dataset
    if built.job.loader is not None or isinstance(dataset, IterableDataset):
        return ColdRead(not_measured="storage: only a map-style data set can be asked for the same samples twice")
    indices, files = _chosen(request, built, clock)
    if not files:
        return ColdRead(not_measured=NO_FILE)
    try:
        return _read_twice(request, built, indices, files, clock)
    except LoaderFailed as failed:
        return ColdRead(num_files=len(files), not_measured=f"storage: {failed.reason}")


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


def _read_twice(
    request: ReadCold, built: BuiltJob, indices: Sequence[int], files: Sequence[str], clock: Clock
) -> ColdRead:
    """An epoch of the samples warm, and one cold; the same workers run both, as starting them costs."""
    close_kept(built)
    consume = consumer("together", built, torch.device(request.device), request.precision)
    with closing(OpenLoader(request.lane, built, request, indices=indices, clock=clock)) as loader:
        loader.start()
        warm_seconds = _epoch_seconds(loader, consume, clock)
        drop_from_cache(files)
        if (share := cached_share(files)) > STILL_CACHED:
            reason = f"storage: {share:.0%} of the job's files stayed in memory when they were dropped from the cache"
            return ColdRead(num_files=len(files), not_measured=reason)
        num_bytes = -_read_bytes(loader)
        loader.take()
        cold_seconds = _epoch_seconds(loader, consume, clock)
        num_bytes += _read_bytes(loader)
        return ColdRead(
            num_files=len(files),
            num_samples=len(indices),
            warm_batch_seconds=warm_seconds / loader.epoch_batches,
            cold_batch_seconds=cold_seconds / loader.epoch_batches,
            bytes_per_sample=num_bytes / len(indices),
            bytes_per_second=num_bytes / cold_seconds,
        )


def _epoch_seconds(loader: OpenLoader, consume: Callable[[Batch], Any], clock: Clock) -> float:
    """Of an epoch whose first batch was taken already; its clock started when the workers did."""
    for _ in range(loader.epoch_batches - 1):
        consume(loader.take())
    return clock() - loader.epoch_began


def _read_bytes(loader: OpenLoader) -> int:
    pids = [None, *(process.pid for process in loader.processes)]
    return sum(int(psutil.Process(pid).io_counters().read_bytes) for pid in pids)
