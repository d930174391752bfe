"""Which sample each loader process is at: told when asked by a signal, so that nothing is paid while all goes well."""

import os
import signal
import time
from collections.abc import Callable, Collection, Sequence
from multiprocessing.sharedctypes import RawArray
from types import FrameType
from typing import Any

from legroom.training.broken_off import sample_of

ABSENT, NOWHERE = -2, -1
WAIT_SECONDS = 0.5


class WorkerPlaces:
    """What each worker runs first, and what the run asks when a batch does not come."""

    def __init__(self, num_workers: int, first: Callable[[int], None] | None) -> None:
        self.places = RawArray("q", [ABSENT] * num_workers)
        self.first = first
        """What else a worker runs first."""

    def __call__(self, worker: int) -> None:
        """Listen to the signal in this worker; before that it would end the process."""

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
