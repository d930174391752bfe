"""What it means when a loader fails or its batch never comes: which worker, at which sample, and what to do."""

import multiprocessing
import shutil
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import psutil

from legroom.clock import Clock, monotonic
from legroom.errors import JobCrashed, JobHung, JobRaised
from legroom.questions.loading.child.watched_data import WORKING, Board
from legroom.units import format_bytes, format_seconds

KILLED_FOR_MEMORY = (-signal.SIGKILL, -signal.SIGBUS)
"""Signals of a worker that found no memory: the kernel's own, and the one of a full /dev/shm."""
NUM_NAMED = 4
LOOK_SECONDS = 1.0
IDLE_SECONDS, LONG_SECONDS = 10.0, 60.0
"""A batch is lost where it is awaited while, for so long, no worker reads a sample or computes: the first where
/dev/shm is full, the second where it is not, since collating may wait for something too."""
BUSY_SECONDS = 0.1
"""Core seconds of all workers together that count as computing; idle ones look for work every 5 s."""
SHM = Path("/dev/shm")


class LoaderFailed(Exception):
    """The loader cannot run here; the others of its comparison go on."""

    def __init__(self, outcome: Literal["out_of_memory", "unpicklable"], reason: str) -> None:
        super().__init__(reason)
        self.outcome, self.reason = outcome, reason


def explain_sample(board: Board, num_workers: int, error: Exception) -> None:
    """Raise which sample failed, if one did."""
    failed = board.failed()
    if failed is not None:
        where = f"at index {failed['index']}, in {_name(failed['worker'], num_workers)}"
        raise JobRaised(f"train_data raised {failed['error']} {where}", details=str(error), facts=failed) from error


def explain_death(children: Sequence[Any], board: Board, num_workers: int, error: Exception) -> None:
    """Raise who died where, if a worker did: torch tells of it in the middle of anything."""
    dead = [(place, child.exitcode) for place, child in enumerate(children) if child.exitcode]
    if not dead:
        return
    worker, code = dead[0]
    how = f"died of {signal.Signals(-code).name}" if code < 0 else f"ended itself with exit status {code}"
    message = f"Loader worker {worker} of {num_workers} {how} {reading(board, num_workers)}"
    if code in KILLED_FOR_MEMORY:
        raise LoaderFailed("out_of_memory", message) from error
    raise JobCrashed(message, details=str(error)) from error


def explain_start(error: Exception) -> None:
    """Raise that the data set cannot be sent to workers, where they start anew and need it pickled."""
    if multiprocessing.get_start_method() != "fork":
        reason = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:200]}"
        raise LoaderFailed("unpicklable", reason) from error


def reading(board: Board, num_workers: int) -> str:
    """The samples that are being read now, in words."""
    places = board.reading(num_workers)[:NUM_NAMED]
    words = ", ".join(f"index {index} in {_name(worker, num_workers)}" for worker, index in places)
    return f"while reading {words}" if words else "while no sample was being read"


def _name(worker: int | None, num_workers: int) -> str:
    return "the training process" if worker is None else f"worker {worker} of {num_workers}"


def hush_deaths() -> None:
    """Keep torch's handler from raising once more while a failure is looked into; torch then polls its workers."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def kill_workers() -> None:
    """End all workers when one hangs: torch would wait 5 s for each of them."""
    hush_deaths()
    for child in multiprocessing.active_children():
        child.kill()


class Patience:
    """Lets each thing take so many seconds, then raises in the main thread; in others, or without alarms, never."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.can_ring = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()

    @contextmanager
    def __call__(self, where: Callable[[], str], look: Callable[[], None] | None = None) -> Iterator[None]:
        """Raise JobHung, with where it was, if the body takes longer; `look` may raise earlier, once a second.

        Without `look` nothing disturbs the body before its time: a library of the job's may not expect signals.
        """
        if not self.can_ring:
            yield
            return
        began = monotonic()

        def ring(number: int, frame: Any) -> None:
            if look is not None:
                look()
            if look is None or monotonic() - began >= self.seconds:
                raise JobHung(
                    f"A batch did not come within {format_seconds(self.seconds)}, {where()}, and was given up. "
                    "If a batch of yours takes longer, raise --timeout"
                )

        previous = signal.signal(signal.SIGALRM, ring)
        every = self.seconds if look is None else min(self.seconds, LOOK_SECONDS)
        signal.setitimer(signal.ITIMER_REAL, every, every)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, previous)


class LostBatchWatch:
    """Looks at the workers now and then while one batch is awaited.

    A worker that cannot hand a batch over drops it, and torch waits for it for ever.
    """

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
        """What the loader's batches take at most: with more than that free, /dev/shm was not what lost one."""
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
            raise LoaderFailed("out_of_memory", f"{lost}; {sizes}")
        if self.can_see_reads and seconds >= LONG_SECONDS:
            raise JobHung(f"{lost}. That happens where a batch holds what cannot be sent between processes")


def workers_cpu(workers: Sequence[Any]) -> float:
    """Core seconds that the living ones of these processes took so far."""
    times = [psutil.Process(worker.pid).cpu_times() for worker in workers if worker.is_alive()]
    return float(sum(time.user + time.system for time in times))
