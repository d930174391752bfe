"""What loaders hold of this host, and whether they fit: their batches into /dev/shm, all of it into memory."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from legroom.child.built_job import BuiltJob
from legroom.host.limits import HostLimits
from legroom.laws.loading import ROOM_SHARE, WORKER_BYTES, waiting_bytes
from legroom.questions.loading.records import LoaderSettings
from legroom.training.data.batch import num_bytes
from legroom.units import format_bytes

ReadLimits = Callable[[], HostLimits]
NUM_LOOKED_AT = 8
"""Workers do the same work, and the kernel takes up to 10 ms to add up the pages of one."""


def what_lacks(settings: Sequence[LoaderSettings], built: BuiltJob, batch_size: int, limits: HostLimits) -> str:
    """What these loaders need at once and what is there, where it is too little; empty where they fit.

    A full /dev/shm ends no process: the worker drops the batch, and the training process waits for it for ever.
    """
    num_workers = sum(one.num_workers for one in settings)
    if not num_workers:
        return ""
    size = batch_bytes(built, batch_size)
    waiting = sum(waiting_bytes(one.num_workers, one.prefetch_factor, size) for one in settings)
    memory = waiting + num_workers * (built.worker_bytes or WORKER_BYTES)
    workers = "1 worker holds" if num_workers == 1 else f"{num_workers} workers hold"
    if limits.shm_bytes is not None and waiting > ROOM_SHARE * limits.shm_bytes:
        free = format_bytes(limits.shm_bytes)
        return f"{workers} up to {format_bytes(waiting)} of batches at a time; /dev/shm has {free} free"
    if memory > ROOM_SHARE * limits.available_bytes:
        free = format_bytes(limits.available_bytes)
        return f"{workers} up to {format_bytes(memory)}, batches included; {free} of host memory are free"
    return ""


def batch_bytes(built: BuiltJob, batch_size: int) -> int:
    """Bytes of a batch: of those that loaders gave, or else of one made from the largest samples looked at."""
    if batch_size not in built.batch_bytes:
        if built.job.loader is not None:
            return 0  # the job's own loader makes batches as it likes
        built.batch_bytes[batch_size] = num_bytes(next(built.train.batches(batch_size, "worst")))
    return built.batch_bytes[batch_size]


def worker_memory(pids: Sequence[int]) -> tuple[int, int]:
    """(private, resident) bytes of the largest of the first workers, which hold most; zeros where there is none."""
    seen = [(_private_bytes(pid), _resident_bytes(pid)) for pid in pids[:NUM_LOOKED_AT]]
    return max((private for private, _ in seen), default=0), max((resident for _, resident in seen), default=0)


def _private_bytes(pid: int) -> int:
    """Pages of this process alone: forked workers share the data set with their parent until they write to it."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return _resident_bytes(pid)
    return sum(int(size) * 1024 for size in re.findall(r"^Private_(?:Clean|Dirty):\s+(\d+) kB", text, re.MULTILINE))


def _resident_bytes(pid: int) -> int:
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0
