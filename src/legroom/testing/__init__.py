"""For tests, ours and yours: a machine with planted laws, a fake clock, and checks every engine must pass."""

from legroom.testing.clock import FakeClock
from legroom.testing.conformance import check_engine
from legroom.testing.loaders import FakeLoaders
from legroom.testing.machine import FakeMachine
from legroom.testing.steps import FakeSteps

__all__ = ["FakeClock", "FakeLoaders", "FakeMachine", "FakeSteps", "check_engine"]
