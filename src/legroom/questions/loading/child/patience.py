"""An alarm for what takes too long: raises in the main thread, wherever that waits."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from legroom.clock import monotonic
from legroom.errors import JobHung
from legroom.units import format_seconds

LOOK_SECONDS = 1.0


class Patience:
    """Lets each thing take so many seconds. Elsewhere than in a main thread, or without alarms, it waits for ever."""

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
