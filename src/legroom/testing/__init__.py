"""For tests, ours and yours: a machine with planted laws, a fake clock, and checks every engine must pass."""

from legroom.questions.devices.fake import FakeRing
from legroom.questions.loading.fake import FakeLoaders
from legroom.questions.memory.fake import FakeMemory
from legroom.questions.rate.fake import FakeLearner, FakeLearning
from legroom.questions.size.fake import FakeSizes
from legroom.questions.speed.fake import FakeSteps
from legroom.questions.train.fake import FakeRuns
from legroom.questions.variants.fake import FakeVariants
from legroom.testing.clock import FakeClock
from legroom.testing.conformance import check_engine
from legroom.testing.host import plant_gpu, plant_host
from legroom.testing.machine import FakeMachine

__all__ = [
    "FakeClock",
    "FakeLearner",
    "FakeLearning",
    "FakeLoaders",
    "FakeMachine",
    "FakeMemory",
    "FakeRing",
    "FakeRuns",
    "FakeSizes",
    "FakeSteps",
    "FakeVariants",
    "check_engine",
    "plant_gpu",
    "plant_host",
]
