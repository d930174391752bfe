"""A trial: the job trained in this process, which saves and reports before it leaves when it is told to."""

import os
import resource
import signal
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType

import torch

from legroom.child.built_job import BuiltJob
from legroom.clock import monotonic
from legroom.host.limits import read_limits
from legroom.training.loop import Run
from legroom.training.records import Train, Trained


def train_job(request: Train, built: BuiltJob) -> Trained:
    """Train as the request says. A SIGTERM lets the run save, report and end; more of them break off what hangs."""
    if request.several:
        # Imported here: what ranks are started with takes 0.1 s, and most runs have one process.
        from legroom.questions.train.child_ranks import train_on_ranks

        return train_on_ranks(request, built)
    built.forget_model()  # the run builds its own, from its own seed
    valid = built.valid.dataset if built.job.valid_data is not None else None
    interrupt = Interrupt()
    run = Run(built.job, request, built.train.dataset, valid, beat=built.beat, interrupted=lambda: interrupt.came)
    interrupt.hurry = run.hurry
    started = _times()
    try:
        trained = run.go()
    finally:
        interrupt.hurry = None
    return replace(trained, peak_bytes=_peak_bytes(run.trainer.device), utilisation=_utilisation(run, started))


def _peak_bytes(device: torch.device) -> int | None:
    if device.type == "cuda":
        return torch.cuda.max_memory_reserved(device)
    try:  # read and left as it is: whoever started the run may want the kernel's mark too
        return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) * 1024
    except (OSError, IndexError):  # no Linux
        return None


def _times() -> tuple[float, float]:
    """Seconds on any core, loader processes that have ended included, and on the clock.

    Not those of `os.times`, which counts in hundredths: a short trial took none of them.
    """
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime, monotonic()


def _utilisation(run: Run, started: tuple[float, float]) -> float | None:
    if run.trainer.device.type == "cuda":
        readings = run.recorder.utilisations
        return statistics.fmean(readings) if readings else None
    worked, passed = (now - then for now, then in zip(_times(), started, strict=True))
    return min(1.0, worked / passed / read_limits().num_cores)


class Interrupt:
    """Notes a SIGTERM instead of dying of it."""

    def __init__(self) -> None:
        self.came = False
        self.hurry: Callable[[FrameType | None], None] | None = None
        self.owner = os.getpid()
        signal.signal(signal.SIGTERM, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self.owner:  # a loader process that inherited this: its time is over
            os._exit(128 + number)
        self.came = True
        if self.hurry is not None:
            self.hurry(frame)
