"""Ends a job that takes too much of the host: the memory of its process and all it started, looked at often."""

from legroom.clock import Clock, monotonic
from legroom.process_memory import resident_bytes, tree_bytes, tree_of

SCAN_SECONDS = 0.25
"""Between two searches for processes that joined the tree: each reads all processes of the machine."""
LOOK_EVERY = 10
"""Times the cost of an exact look, until the next one."""


class MemoryGuard:
    """Tells when a process and those below it hold more than the limit.

    Resident bytes added up count shared pages twice, but cost next to nothing: only where they pass the limit are pages
    counted once.
    """

    def __init__(self, pid: int, limit_bytes: int, clock: Clock = monotonic) -> None:
        self.pid, self.limit_bytes, self.clock = pid, limit_bytes, clock
        self.pids = [pid]
        self.scan_at = self.look_at = 0.0

    def excess(self) -> int | None:
        """Bytes they hold, where that is above the limit."""
        now = self.clock()
        if now >= self.scan_at:
            self.pids, self.scan_at = tree_of(self.pid), now + SCAN_SECONDS
        alone = resident_bytes(self.pid)
        if alone > self.limit_bytes:
            return alone
        if sum(map(resident_bytes, self.pids)) <= self.limit_bytes or now < self.look_at:
            return None
        held = tree_bytes(self.pids)
        self.look_at = self.clock() + LOOK_EVERY * (self.clock() - now)
        return held if held > self.limit_bytes else None
