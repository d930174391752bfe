"""How often the memory of a job is looked at."""

import os

from legroom.engines import guard
from legroom.engines.guard import LOOK_EVERY, MemoryGuard
from legroom.testing import FakeClock


def test_a_look_that_waited_long_for_a_core_is_soon_followed_by_another(monkeypatch):
    clock, core_clock, looks = FakeClock(), FakeClock(), []

    def look(pids):
        clock.advance(10.0)
        core_clock.advance(0.01)
        looks.append(pids)
        return 0

    monkeypatch.setattr(guard, "tree_bytes", look)
    monkeypatch.setattr(guard, "resident_bytes", lambda pid: 60)
    monkeypatch.setattr(guard, "tree_of", lambda pid: [pid, pid])
    watch = MemoryGuard(os.getpid(), 100, clock, core_clock)
    assert watch.excess() is None
    clock.advance(0.9 * LOOK_EVERY * 0.01)
    assert watch.excess() is None
    assert len(looks) == 1
    clock.advance(0.2 * LOOK_EVERY * 0.01)
    assert watch.excess() is None
    assert len(looks) == 2
