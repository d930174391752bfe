"""A batch that never comes: where its worker could not hand it over, it drops it, and torch waits for ever."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil

from legroom.clock import Clock, monotonic
from legroom.errors import JobHung
from legroom.questions.loading.child.lane_failures import LaneFailed
from legroom.questions.loading.child.watched_data import WORKING, Board
from legroom.units import format_bytes

IDLE_SECONDS, LONG_SECONDS = 10.0, 60.0
"""A batch is lost where it is awaited while, for so long, no worker reads a sample or computes: the first where
/dev/shm is full, the second where it is not, since collating may wait for something too."""
BUSY_SECONDS = 0.1
"""Core seconds of all workers together that count as computing; idle ones look for work every 5 s."""
SHM = Path("/dev/shm")


class LostBatchWatch:
    """Looks at the workers now and then while one batch is awaited."""

    def __init__(
        self,
        board: Board,
        workers: Callable[[], Sequence[Any]],
        *,
        waiting_bytes: int,
        can_see_reads: bool = True,
        clock: Clock = monotonic,
        free_bytes: Callable[[], int | None] = lambda: shutil.disk_usage(SHM).free if SHM.is_dir() else None,
    ) -> None:
        self.board, self.workers, self.clock, self.free_bytes = board, workers, clock, free_bytes
        self.waiting_bytes = waiting_bytes
        """What the lane's batches take at most: with more than that free, /dev/shm was not what lost one."""
        self.can_see_reads = can_see_reads
        self.idle_since: float | None = None
        self.cpu_seconds = 0.0

    def look(self) -> None:
        """Raise if the workers have been idle for too long."""
        workers = self.workers()
        cpu_seconds = workers_cpu(workers)
        is_busy = self.board.state[0] != WORKING or bool(self.board.reading(len(workers)))
        if self.idle_since is None or is_busy or cpu_seconds - self.cpu_seconds > BUSY_SECONDS:
            self.idle_since, self.cpu_seconds = self.clock(), cpu_seconds
        elif workers and self.clock() - self.idle_since >= IDLE_SECONDS:
            self._tell(len(workers), self.clock() - self.idle_since)

    def _tell(self, num_workers: int, seconds: float) -> None:
        free = self.free_bytes()
        lost = f"A batch was lost on its way: none of {num_workers} workers did anything for {seconds:.0f} s"
        if free is not None and free <= self.waiting_bytes:
            sizes = (
                f"they hold up to {format_bytes(self.waiting_bytes)} of batches; /dev/shm has {format_bytes(free)} free"
            )
            raise LaneFailed("out_of_memory", f"{lost}; {sizes}")
        if self.can_see_reads and seconds >= LONG_SECONDS:
            raise JobHung(f"{lost}. That happens where a batch holds what cannot be sent between processes")


def workers_cpu(workers: Sequence[Any]) -> float:
    """Core seconds that the living ones of these processes took so far."""
    times = [psutil.Process(worker.pid).cpu_times() for worker in workers if worker.is_alive()]
    return float(sum(time.user + time.system for time in times))
