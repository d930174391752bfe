"""A step held on a card that is planted: events, sleeps and kernels on one stream, launches on the host's clock."""

import itertools
import time

import pytest
import torch

from legroom.child import step_timer
from legroom.child.built_job import BuiltJob
from legroom.child.cuda_clocks import Held, busy_seconds, trace
from legroom.child.step_timer import EventTimer
from legroom.job_address import address_of
from legroom.questions.speed.child import subject as subjects
from legroom.questions.speed.child.steps import time_steps
from legroom.questions.speed.records import TimeSteps
from legroom.requests import record_from
from legroom.testing import FakeClock

CYCLES_A_SECOND = 2e9
PHASES = ("data", "forward", "backward", "update")


class FakeCard:
    """Runs in order what is given to it, each not before the host gave it; its queue may be short."""

    def __init__(self, queue=10**9):
        self.clock, self.free_at, self.queue, self.ends = FakeClock(), 0.0, queue, []
        self.kernels = []

    def give(self, seconds):
        self.ends = [end for end in self.ends if end > self.clock()]
        if len(self.ends) >= self.queue:
            self.clock.advance(self.ends[-self.queue] - self.clock())
        self.free_at = max(self.free_at, self.clock()) + seconds
        self.ends.append(self.free_at)

    def wait(self):
        self.clock.advance(max(0.0, self.free_at - self.clock()))

    def step(self, device, host, num_kernels=90, waits=False):
        """A step of that many kernels, in three phases."""

        def watched(watch):
            def run():
                for phase in PHASES:
                    for _ in range(0 if phase == "data" else num_kernels // 3):
                        self.clock.advance(host / num_kernels)
                        self.give(device / num_kernels)
                        self.kernels.append((self.free_at - device / num_kernels, self.free_at))
                    if waits and phase == "forward":
                        self.wait()
                    watch(phase)

            return run

        return watched

    def trace(self, step):
        """What a profiler would tell of the step."""
        self.kernels.clear()
        step()
        return busy_seconds((round(1e9 * start), round(1e9 * end)) for start, end in self.kernels)


@pytest.fixture
def card(monkeypatch):
    return plant(FakeCard(), monkeypatch)


def plant(card, monkeypatch):
    class Event:
        def __init__(self, enable_timing):
            assert enable_timing

        def record(self):
            self.at = max(card.free_at, card.clock())

        def elapsed_time(self, other):
            return 1e3 * (other.at - self.at)

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "_sleep", lambda cycles: card.give(cycles / CYCLES_A_SECOND))
    monkeypatch.setattr(torch.cuda, "synchronize", card.wait)
    monkeypatch.setattr(step_timer, "trace", card.trace)
    return card


def clocks_of(card, watched):
    """Both clocks as a visit reads them: after steps that were timed."""
    timer = EventTimer(card.clock)
    seconds = timer.time(watched(lambda phase: None), 5)
    return timer.both_clocks(watched, seconds[-1]), seconds[-1]


@pytest.mark.parametrize(("device", "host"), [(0.004, 0.02), (0.019, 0.02), (0.03, 0.02)])
def test_both_planted_clocks_are_read_and_the_slower_is_the_step(card, device, host):
    held, step = clocks_of(card, card.step(device, host))
    assert held.device_seconds == pytest.approx(device)
    assert held.host_seconds == pytest.approx(host)
    assert step == pytest.approx(max(device, host), rel=0.02)


def test_a_step_that_reads_from_the_card_is_traced_and_tells_the_cards_clock_alone(card):
    held, _ = clocks_of(card, card.step(0.004, 0.02, waits=True))
    assert held == Held(pytest.approx(0.004, rel=0.05), 0.0)


on_a_card = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")


@on_a_card
def test_a_trace_tells_the_seconds_of_the_kernels_between_waits():
    weight = torch.rand(4096, 4096, device="cuda")

    def step():
        for _ in range(20):
            (weight @ weight).sum().item()

    step()
    products = EventTimer(time.perf_counter).time(lambda: [weight @ weight for _ in range(20)], 3)[-1]
    assert trace(step) == pytest.approx(products, rel=0.2)


@on_a_card
def test_a_job_that_traces_its_own_steps_goes_on_untraced():
    def traces():
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA], acc_events=True):
            torch.ones(4, device="cuda").sum().item()

    assert trace(traces) == 0.0
    traces()


@on_a_card
def test_no_room_for_a_traced_step_is_told():
    with pytest.raises(torch.OutOfMemoryError):
        trace(lambda: torch.empty(1 << 50, device="cuda"))


@pytest.mark.parametrize(("num_kernels", "known"), [(2400, True), (6000, False)])
def test_each_phase_has_the_queue_for_itself_and_a_full_one_tells_nothing_of_the_host(monkeypatch, num_kernels, known):
    card = plant(FakeCard(queue=1000), monkeypatch)
    held, _ = clocks_of(card, card.step(0.04, 0.02, num_kernels=num_kernels))
    assert held.device_seconds == pytest.approx(0.04, rel=0.02)
    assert held.host_seconds == (pytest.approx(0.02) if known else 0.0)


def test_a_step_much_longer_than_its_launches_is_not_held(card):
    held, step = clocks_of(card, card.step(0.1, 0.02))
    assert held == Held(step, pytest.approx(0.02))


def test_launches_that_wait_for_room_in_the_queue_are_not_taken_for_the_hosts_pace(monkeypatch):
    card = plant(FakeCard(queue=1000), monkeypatch)
    timer = EventTimer(card.clock)
    timer.time(card.step(0.004, 0.02, num_kernels=2400)(lambda phase: None), 5)
    long = card.step(0.4, 0.02, num_kernels=2400)
    seconds = timer.time(long(lambda phase: None), 1)
    assert timer.both_clocks(long, seconds[0]) == Held(seconds[0], 0.0)


def test_a_slow_moment_of_the_host_costs_one_visit_only(card):
    timer, even = EventTimer(card.clock), card.step(0.004, 0.02)
    timer.time(even(lambda phase: None), 5)
    assert timer.both_clocks(card.step(0.004, 0.5), 0.02).host_seconds == 0.0
    assert timer.both_clocks(even, 0.02) == Held(pytest.approx(0.004), pytest.approx(0.02))


def test_visits_give_the_medians_of_both_clocks(monkeypatch):
    readings = itertools.cycle([Held(0.004, 0.02), Held(), Held(0.006, 0.03), Held(0.005, 0.025)])
    monkeypatch.setattr(
        subjects.Subject, "_hold", lambda self, placed: self.held.extend(next(readings) for _ in PHASES)
    )
    request = TimeSteps(device="cpu", batch_sizes=(4,), seconds=0.1, min_rounds=1)
    point = time_steps(request, BuiltJob(address_of("digits"))).points[0]
    assert (point.device_seconds, point.host_seconds) == (0.005, 0.025)


def hold_with(monkeypatch, both_clocks, num_visits):
    """A size visited so often, its clocks read by that function."""
    request = TimeSteps(device="cpu", batch_sizes=(4,))
    built = BuiltJob(address_of("digits"))
    timer = step_timer.open_timer(torch.device("cpu"))
    monkeypatch.setattr(timer, "both_clocks", both_clocks)
    subject = subjects.Subject(4, request, built, timer)
    for _ in range(num_visits):
        subject.visit()
    return subject


def test_a_size_whose_clocks_cannot_be_told_apart_is_not_held_at_every_visit(monkeypatch):
    asked = []
    hold_with(monkeypatch, lambda *words: asked.append(words) or Held(), num_visits=5)
    assert len(asked) == subjects.NUM_TRIES


def test_running_out_of_memory_in_a_held_step_leaves_the_timing_as_it_is(monkeypatch):
    def run_out(*words):
        raise torch.OutOfMemoryError("planted")

    subject = hold_with(monkeypatch, run_out, num_visits=1)
    assert subject.outcome == "measured"
    assert subject.held == [Held()]


def test_a_cpu_has_one_clock_and_earlier_records_load():
    request = TimeSteps(device="cpu", batch_sizes=(4,), seconds=0.1, min_rounds=1)
    point = time_steps(request, BuiltJob(address_of("digits"))).points[0]
    assert (point.device_seconds, point.host_seconds) == (0.0, 0.0)
    earlier = {"kind": "step_times", "points": [{"batch_size": 4, "median_seconds": 0.1, "interval": [0.1, 0.1]}]}
    assert record_from(earlier).points[0].device_seconds == 0.0


@pytest.mark.parametrize(
    ("held", "num_steps"),
    [(Held(0.001, 0.01), 30), (Held(0.001, 0.0), 30), (Held(0.01, 0.008), 10), (Held(), 10)],
)
def test_a_visit_is_longer_where_steps_wait_for_the_host_whether_its_launches_are_known_or_not(held, num_steps):
    subject = subjects.Subject(
        4, TimeSteps(device="cpu", batch_sizes=(4,)), BuiltJob(address_of("digits")), EventTimer(FakeClock())
    )
    subject.held, subject.step_seconds = [held], 0.01
    assert subject._num_steps() == num_steps
