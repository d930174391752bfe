"""Where a run hangs that was told to end: it is broken off there, and says at which sample and line that is."""

import os
import signal
import sysconfig
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from multiprocessing.sharedctypes import RawArray
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from legroom.training.trainer import Trainer

PATIENCE_SECONDS = 3.0
PATIENCE_UPDATES = 3.0
"""What takes longer than so many seconds, and than so many updates on average, hangs."""
NAMED_SAMPLES = 8
OTHERS = (str(Path(__file__).parents[1]), sysconfig.get_path("stdlib"), "<")
"""Where files lie that are not the job's own, besides site-packages."""
FETCH = str(Path("torch", "utils", "data", "_utils", "fetch.py"))
ABSENT, NOWHERE = -2, -1
WAIT_SECONDS = 0.5


class BrokenOff(BaseException):
    """Raised into a run that was told to end and is stuck: no Exception, which a data set may catch to go on."""


class Hurry:
    """Called by whoever wants the run to end, as often as he likes: breaks it off where it hangs in that frame."""

    def __init__(self, trainer: "Trainer", beat: Callable[[str, float | None], None]) -> None:
        self.trainer, self.beat = trainer, beat
        self.stuck_at: str | None = None
        """What the run was at when it was broken off."""

    def __call__(self, frame: FrameType | None) -> None:
        """Raise into the run where it hangs; else give a sign of life."""
        doing, at = self.trainer.doing, self.trainer.at
        if self.stuck_at is not None or doing == "saving":
            return  # an end is near
        patience = max(PATIENCE_SECONDS, PATIENCE_UPDATES * at.training_seconds / max(1, at.step))
        # While recording, nothing of the job's runs that may hang.
        if doing != "recording" and self.trainer.clock() - self.trainer.since > patience:
            self.stuck_at = self._place(frame)
            raise BrokenOff(self.stuck_at)
        self.beat("ending", None)

    def _place(self, frame: FrameType | None) -> str:
        """What the run is at, with sample and line where they are known."""
        at = self.trainer.at
        match self.trainer.doing:
            case "waiting":
                batch = f"batch {at.position + 1:,} of epoch {at.epoch + 1:,}"
                return f"waiting for {self._samples(frame)}{batch}{line_of(frame)}"
            case "evaluating":
                index = sample_of(frame)
                sample = "" if index is None else f", at sample {index:,} of the validation data"
                return f"evaluating after update {at.step:,}{sample}{line_of(frame)}"
            case "updating":
                return f"making update {at.step + 1:,}{line_of(frame)}"
        return f"starting{line_of(frame)}"

    def _samples(self, frame: FrameType | None) -> str:
        samples = self.trainer.feed.samples(self.trainer.at.epoch, self.trainer.at.position)
        index = sample_of(frame)
        if index is None:
            index = self.trainer.feed.stuck_sample(samples)
        if index is not None:
            return f"sample {index} of the training data, in "
        named = ", ".join(map(str, samples[:NAMED_SAMPLES]))
        more = f" and {len(samples) - NAMED_SAMPLES:,} more" if len(samples) > NAMED_SAMPLES else ""
        return f"one of the samples {named}{more} of the training data, in " if samples else ""


class WorkerPlaces:
    """Which sample each loader process is at: told when asked by a signal, so that nothing is paid before."""

    def __init__(self, num_workers: int, first: Callable[[int], None] | None) -> None:
        self.places = RawArray("q", [ABSENT] * num_workers)
        self.first = first
        """What else a worker runs first."""

    def __call__(self, worker: int) -> None:
        """Listen to the signal in this worker, which runs this first; before that it would end the process."""

        def tell(number: int, frame: FrameType | None) -> None:
            index = sample_of(frame)
            self.places[worker] = NOWHERE if index is None else index

        if self.first is not None:
            self.first(worker)
        if hasattr(signal, "SIGUSR1"):
            signal.signal(signal.SIGUSR1, tell)
            self.places[worker] = NOWHERE

    def among(self, samples: Collection[int], processes: Sequence[Any]) -> int | None:
        """The sample of these that a worker is at; None where none tells."""
        for process, place in zip(processes, self.places, strict=True):
            if place != ABSENT and process.is_alive():
                os.kill(process.pid, signal.SIGUSR1)
        until = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < until:
            if found := [place for place in self.places if place in samples]:
                return int(found[0])
            time.sleep(0.01)
        return None


def sample_of(frame: FrameType | None) -> int | None:
    """The index that torch's loader asks the data set for in this process, if it does."""
    # torch 2.13: a loop over `idx`, which has a frame of its own before Python 3.12.
    found = (each.f_locals.get("idx") for each in _outwards(frame) if each.f_code.co_filename.endswith(FETCH))
    return next((index for index in found if isinstance(index, int)), None)


def line_of(frame: FrameType | None) -> str:
    """The innermost line of the job's own files, in brackets; empty where there is none."""
    for each in _outwards(frame):
        name = each.f_code.co_filename
        if not name.startswith(OTHERS) and "site-packages" not in name:
            return f" ({name}, line {each.f_lineno})"
    return ""


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back
