"""When a proof on a host has seen enough of the loop that trains."""

from types import SimpleNamespace

import pytest

from legroom.questions.memory.child.training_peaks import LoopWatch
from legroom.testing import FakeClock

NUM_STEPS = 5


class Meter:
    """A heap of so many bytes."""

    held = 100

    def take_peak(self):
        return self.held

    def loader_bytes(self):
        return 0


def steps_until_settled(step_seconds, after_evaluation=100):
    """How many steps a loop makes with an evaluation after every fifth, and the largest peak of them."""
    clock, meter = FakeClock(), Meter()
    watch = LoopWatch(NUM_STEPS, SimpleNamespace(beat=lambda *words: None), clock)
    watch.meter = meter
    for step in range(1, 100):
        clock.advance(step_seconds)
        for phase in ("data", "forward", "backward", "update"):
            watch(phase)
        if step % NUM_STEPS == 0:
            watch("evaluation")
            meter.held = after_evaluation
        if watch.is_settled():
            return step, max(watch.peaks().values())
    return None


@pytest.mark.parametrize(("step_seconds", "num_steps"), [(0.1, 10), (1.5, 10), (2.5, 6), (60.0, 6)])
def test_what_an_evaluation_leaves_in_the_heap_counts_however_long_steps_take(step_seconds, num_steps):
    assert steps_until_settled(step_seconds, after_evaluation=101) == (num_steps, 101)


def test_a_peak_that_still_rises_has_more_rounds():
    assert steps_until_settled(0.1, after_evaluation=150)[0] == 15
