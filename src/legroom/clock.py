"""Time is injected: a probe takes a clock, a test hands it a fake one (`legroom.testing.FakeClock`)."""

import time
from typing import Protocol


class Clock(Protocol):
    """Anything that can tell the seconds since some fixed moment."""

    def __call__(self) -> float: ...


monotonic: Clock = time.perf_counter
