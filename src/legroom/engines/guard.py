"""Ends a job that takes too much of the host: the memory of its process and all it started, looked at often enough."""

import time

from legroom.clock import Clock, monotonic
from legroom.host.process_memory import resident_bytes, tree_bytes, tree_of

SOONEST, LATEST = 0.02, 1.0
"""Seconds until the next look. Each takes a core from the job, and on two cores its threads wait for one another."""
FASTEST_GROWTH = 4 * 2**30
"""Bytes a second that a job can take at most, about: the kernel hands out no more."""
SCAN_SECONDS = 0.25
"""Between two searches for processes that joined the tree: some kernels have all processes read for it."""
LOOK_EVERY = 4
"""Times the cost of an exact look, until the next one."""


class MemoryGuard:
    """Tells when a process and those below it hold more than the limit.

    Resident bytes added up count shared pages twice, but cost next to nothing: only where they pass the limit are pages
    counted once.
    """

    def __init__(
        self, pid: int, limit_bytes: int, clock: Clock = monotonic, core_clock: Clock = time.thread_time
    ) -> None:
        self.pid, self.limit_bytes, self.clock = pid, limit_bytes, clock
        self.core_clock = core_clock
        """What a look costs is its time on a core: on a busy machine it may wait for one as long as a job lasts."""
        self.pids = [pid]
        self.scan_at = self.look_at = 0.0
        self.wait_seconds = SOONEST
        """Until the next look: as long as the fastest growth would take to the limit."""

    def excess(self) -> int | None:
        """Bytes they hold, where that is above the limit."""
        now = self.clock()
        if now >= self.scan_at:
            self.pids, self.scan_at = tree_of(self.pid), now + SCAN_SECONDS
        alone, together = resident_bytes(self.pid), sum(map(resident_bytes, self.pids))
        self.wait_seconds = min(LATEST, max(SOONEST, (self.limit_bytes - together) / FASTEST_GROWTH))
        if alone > self.limit_bytes:
            return alone
        if together <= self.limit_bytes or now < self.look_at:
            return None
        began = self.core_clock()
        held = tree_bytes(self.pids)
        self.look_at = self.clock() + LOOK_EVERY * (self.core_clock() - began)
        return held if held > self.limit_bytes else None
