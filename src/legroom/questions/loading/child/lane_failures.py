"""What it means when a loader fails: which worker, at which sample, and whether fewer workers would do."""

import multiprocessing
import signal
from collections.abc import Sequence
from typing import Any

from legroom.errors import JobCrashed, JobRaised
from legroom.questions.loading.child.watched_data import Board

KILLED_FOR_MEMORY = (-signal.SIGKILL, -signal.SIGBUS)
"""Signals of a worker that found no memory: the kernel's own, and the one of a full /dev/shm."""
NUM_NAMED = 4


class LaneFailed(Exception):
    """The lane cannot run here; the answer to the race all the same."""

    def __init__(self, outcome: str, reason: str) -> None:
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
        raise LaneFailed("out_of_memory", message) from error
    raise JobCrashed(message, details=str(error)) from error


def explain_start(error: Exception) -> None:
    """Raise that the data set cannot be sent to workers, where they start anew and need it pickled."""
    if multiprocessing.get_start_method() != "fork":
        reason = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:200]}"
        raise LaneFailed("unpicklable", reason) from error


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
