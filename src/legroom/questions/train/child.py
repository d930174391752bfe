"""A trial: the job trained in this process, which saves and reports before it leaves when it is told to."""

import os
import signal
from collections.abc import Callable
from types import FrameType

from legroom.child.built_job import BuiltJob
from legroom.questions.train.child_ranks import train_on_ranks
from legroom.training.loop import Run
from legroom.training.records import Train, Trained


def train_job(request: Train, built: BuiltJob) -> Trained:
    """Train as the request says. A SIGTERM lets the run save, report and end; more of them break off what hangs."""
    if request.several:
        return train_on_ranks(request, built)
    built.forget_model()  # the run builds its own, from its own seed
    valid = built.valid.dataset if built.job.valid_data is not None else None
    interrupt = Interrupt()
    run = Run(built.job, request, built.train.dataset, valid, beat=built.beat, interrupted=lambda: interrupt.came)
    interrupt.hurry = run.hurry
    try:
        return run.go()
    finally:
        interrupt.hurry = None


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
