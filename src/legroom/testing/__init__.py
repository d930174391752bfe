"""For tests, ours and yours: a machine with planted laws, a fake clock, and checks every engine must pass."""

from legroom.testing.clock import FakeClock
from legroom.testing.conformance import check_engine
from legroom.testing.machine import FakeMachine

__all__ = ["FakeClock", "FakeMachine", "check_engine"]
