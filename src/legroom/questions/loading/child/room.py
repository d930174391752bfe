"""Whether loaders fit into this host, alone and side by side: their batches into /dev/shm, all of it into memory."""

from collections.abc import Iterable

from legroom.child.built_job import BuiltJob
from legroom.host.limits import read_limits
from legroom.laws.loading import ROOM_SHARE, WORKER_BYTES, waiting_bytes
from legroom.questions.loading.records import Lane
from legroom.training.data.batch import num_bytes
from legroom.units import format_bytes


def fit_together(lanes: Iterable[Lane], built: BuiltJob, batch_size: int) -> bool:
    """Whether all of them can hold their batches ahead at the same time."""
    return not lacking(list(lanes), built, batch_size)


def lacking(lanes: list[Lane], built: BuiltJob, batch_size: int) -> str:
    """What they need and what is there, where that is not enough; nothing where it is, or where there are no workers.

    A full /dev/shm ends no process: the worker drops the batch, and the training process waits for it for ever.
    """
    num_workers = sum(lane.num_workers for lane in lanes)
    if not num_workers:
        return ""
    size, limits = batch_bytes(built, batch_size), read_limits()
    waiting = sum(waiting_bytes(lane.num_workers, lane.prefetch_factor, size) for lane in lanes)
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
