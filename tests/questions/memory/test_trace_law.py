"""Laws of the traced ledger: planted lines come back, and no prediction breaks what memory must obey."""

import json
import random

import pytest

from legroom.laws.memory import UNBOUNDED, Line, MemoryLaw
from legroom.questions.memory.allocator.estimate import MemoryEstimate
from legroom.questions.memory.allocator.trace_law import Event, Trace, fit


def born(storage: int, num_bytes: int, phase: str = "forward", category: str = "activations") -> Event:
    return Event(storage=storage, num_bytes=num_bytes, phase=phase, category=category)


def died(storage: int, phase: str = "backward") -> Event:
    return Event(storage=storage, num_bytes=None, phase=phase, category="activations")


def random_trace(seed: int, batch_size: int) -> Trace:
    """A step of planted storages: the same events for every size, bytes affine in it."""
    chance = random.Random(seed)
    events, alive = [], []
    for number in range(60):
        num_bytes = 512 * chance.randrange(40) + batch_size * 512 * chance.choice([0, 0, 1, 7])
        events.append(born(number, num_bytes, chance.choice(["forward", "backward"])))
        alive.append(number)
        if chance.random() < 0.5:
            events.append(died(alive.pop(chance.randrange(len(alive)))))
    return Trace(batch_size=batch_size, events=tuple(events))


def peak_by_replay(trace: Trace) -> int:
    sizes: dict[int, int] = {}
    largest = 0
    for event in trace.events:
        if event.num_bytes is None:
            del sizes[event.storage]
        else:
            sizes[event.storage] = event.num_bytes
        largest = max(largest, sum(sizes.values()))
    return largest


@pytest.mark.parametrize("seed", range(20))
def test_law_of_two_sizes_tells_the_peak_of_every_other(seed: int) -> None:
    law, notes = fit(random_trace(seed, 4), random_trace(seed, 8))
    assert notes == ()
    for size in (1, 2, 3, 5, 13, 100, 4096):
        assert law.peak(size).num_bytes == peak_by_replay(random_trace(seed, size))


@pytest.mark.parametrize("seed", range(20))
def test_largest_batch_is_the_last_whose_peak_fits(seed: int) -> None:
    law, _ = fit(random_trace(seed, 4), random_trace(seed, 8))
    for cap in (2**16, 2**20, 123_456_789):
        batch = law.largest_batch(cap)
        assert batch == 0 or law.peak(batch).num_bytes <= cap
        assert law.peak(batch + 1).num_bytes > cap


@pytest.mark.parametrize("seed", range(20))
def test_memory_never_falls_as_the_batch_grows_and_parts_sum_to_it(seed: int) -> None:
    law, _ = fit(random_trace(seed, 4), random_trace(seed, 8))
    peaks = [law.peak(size) for size in range(1, 60)]
    assert [peak.num_bytes for peak in peaks] == sorted(peak.num_bytes for peak in peaks)
    assert all(sum(peak.parts.values()) == pytest.approx(peak.num_bytes, abs=4) for peak in peaks)


def test_optimizer_peak_hides_the_slope_at_small_batches_only() -> None:
    def step(size: int) -> Trace:
        grown = born(1, 10_240 * size)
        return Trace(
            batch_size=size,
            events=(born(0, 5120, "before", "weights"), grown, died(1), born(2, 512_000, "update", "optimizer")),
        )

    law, _ = fit(step(2), step(4))
    assert law.peak(4).phase == "update"
    assert law.peak(100).phase == "forward"
    assert law.peak(100).parts["weights"] == 5120
    assert law.largest_batch(5120 + 10_240 * 70) == 70


def test_only_lines_that_can_be_the_maximum_are_kept() -> None:
    events = [born(n, 1024 * (n + 1)) for n in range(500)]
    law, _ = fit(Trace(batch_size=4, events=tuple(events)), Trace(batch_size=8, events=tuple(events)))
    assert len(law.lines) == 1
    assert law.largest_batch(2**30) == UNBOUNDED


def test_fixed_blocks_are_rounded_up_to_what_the_allocator_hands_out() -> None:
    events = (born(0, 1, "before", "weights"), born(1, 513, "before", "weights"))
    law, _ = fit(Trace(batch_size=4, events=events), Trace(batch_size=8, events=events))
    assert law.peak(1).num_bytes == 512 + 1024


def test_order_of_deaths_at_one_moment_does_not_matter() -> None:
    def step(size: int, dying: tuple[int, int]) -> Trace:
        events = (born(0, 512 * size), born(1, 1024 * size), *(died(n) for n in dying), born(2, 4096 * size))
        return Trace(batch_size=size, events=events)

    law, notes = fit(step(4, (0, 1)), step(8, (1, 0)))
    assert notes == ()
    assert law.peak(10).num_bytes == 40_960


def test_events_that_cannot_be_paired_fall_back_to_peaks_of_phases() -> None:
    def loop_over_samples(size: int) -> Trace:
        return Trace(batch_size=size, events=tuple(born(n, 1024) for n in range(size)))

    law, notes = fit(loop_over_samples(4), loop_over_samples(8))
    assert "another order" in notes[0]
    assert law.peak(100).num_bytes == 102_400


def test_bytes_that_grow_faster_than_the_batch_are_said() -> None:
    def similarity(size: int) -> Trace:
        return Trace(batch_size=size, events=(born(0, 4096 * size**2),))

    _, notes = fit(similarity(4), similarity(8))
    assert "grow faster" in notes[0]


def test_estimate_survives_json() -> None:
    law, _ = fit(random_trace(1, 4), random_trace(1, 8))
    estimate = MemoryEstimate(
        train=law.with_slack(1000, 0.01),
        evaluation=MemoryLaw(lines=(Line(fixed_bytes=1.0, bytes_per_sample=2.0, phase="evaluation", parts={}),)),
        method="fake",
        reason="",
        batch_sizes=(4, 8),
        notes=("a sentence.",),
        seconds=1.5,
    )
    back = MemoryEstimate.from_record(json.loads(json.dumps(estimate.as_record())))
    assert back.train.peak(77).num_bytes == estimate.train.peak(77).num_bytes
    assert back.evaluation == estimate.evaluation
    assert (back.method, back.batch_sizes, back.notes) == ("fake", (4, 8), ("a sentence.",))
