"""Histories replayed at other batch sizes, and what is read between the sizes replayed."""

import json
import random
from dataclasses import replace

import pytest

from legroom.laws.memory import MemoryLaw
from legroom.questions.memory.allocator.estimate import MemoryEstimate
from legroom.questions.memory.allocator.replay import Kind, steps_at
from legroom.questions.memory.allocator.reserve import EXTRA_BYTES, EXTRA_SHARE, Reserve, fit_reserves
from legroom.questions.memory.allocator.trace_law import Event, Trace, fit, pair

MIB = 2**20
KINDS: tuple[Kind, ...] = ("expandable", "default")


def history(size: int, *steps: tuple[int, int]) -> Trace:
    """Steps (storage, MiB a sample): born where the number is positive, dead where it is 0."""
    events = tuple(
        Event(storage=storage, num_bytes=mib * MIB * size or None, phase="forward", category="activations")
        for storage, mib in steps
    )
    return Trace(batch_size=size, events=events)


FEW_HOLES = ((0, 4), (1, 1), (1, 0), (2, 1), (0, 0), (2, 0))
HOLED = ((0, 4), (1, 2), (0, 0), (2, 6), (1, 0), (2, 0))
"""Six do not fit the hole that four left, and in growing segments no retry mends that for good."""


def both(*steps: tuple[int, int]) -> tuple[Trace, Trace, MemoryLaw]:
    """Histories of the same step twice, and the law of their storages' bytes."""
    again = tuple((storage + len(steps), mib) for storage, mib in steps)
    marks = (len(steps), 2 * len(steps))
    small, large = (replace(history(size, *steps, *again), second_step=marks) for size in (10, 20))
    return small, large, fit(small, large)[0]


def samples(cap_mib: int, mib_each: int) -> float:
    """How many fit by hand, beside what a replay misses."""
    return (cap_mib - EXTRA_BYTES / MIB) / (1 + EXTRA_SHARE) / mib_each


def test_few_holes_leave_the_answer_to_what_is_alive() -> None:
    reserves = fit_reserves(*both(*FEW_HOLES))
    assert list(reserves) == ["expandable"]
    assert reserves["expandable"].largest_batch(1000 * MIB) == pytest.approx(samples(1000, 5), abs=3)


def test_holes_count_though_the_storages_alone_would_fit_and_less_in_fixed_segments() -> None:
    small, large, law = both(*HOLED)
    assert law.at(100) == 800 * MIB
    reserves = fit_reserves(small, large, law)
    assert reserves["expandable"].largest_batch(6000 * MIB) == pytest.approx(samples(6000, 12), rel=0.02)
    assert reserves["default"].largest_batch(6000 * MIB) == pytest.approx(samples(6000, 8), rel=0.02)


def test_a_retry_of_the_first_step_alone_costs_nothing() -> None:
    """The hole of the first step is given back, and later steps find the heap that the retry left."""
    small, large, law = both((0, 3), (0, 0), (1, 5), (1, 0))
    assert steps_at(pair(small, large) or [], (4, 8), 100).needed_bytes() == 800 * MIB
    assert fit_reserves(small, large, law)["expandable"].largest_batch(4000 * MIB) == pytest.approx(
        samples(4000, 5), rel=0.02
    )


def test_events_that_cannot_be_paired_are_not_replayed() -> None:
    assert fit_reserves(history(4, (0, 1)), history(8, (0, 1), (1, 1)), MemoryLaw(())) == {}


def test_the_need_is_never_below_what_is_alive() -> None:
    for seed in range(10):
        chance = random.Random(seed)
        steps: list[tuple[int, int]] = []
        alive: list[int] = []
        for number in range(40):
            steps.append((number, chance.randrange(1, 9)))
            alive.append(number)
            if chance.random() < 0.5:
                steps.append((alive.pop(chance.randrange(len(alive))), 0))
        small, large = history(10, *steps), history(20, *steps)
        law = fit(small, large)[0]
        for size in (1, 7, 100):
            found = steps_at(pair(small, large) or [], (len(steps), len(steps)), size)
            assert found.needed_bytes() >= law.at(size)
            assert not any(found.fits(kind, law.at(size) - 1) for kind in KINDS)
            assert all(found.fits(kind, found.needed_bytes(kind)) for kind in KINDS)


def test_between_points_a_line_is_drawn_and_beyond_the_last_it_goes_on() -> None:
    reserve = Reserve(((1, 100), (11, 200), (21, 400)))
    assert [reserve.at(size) for size in (1, 6, 11, 16, 31)] == [100, 150, 200, 300, 600]
    assert [reserve.largest_batch(budget) for budget in (99, 100, 199, 200, 400, 600)] == [0, 1, 10, 11, 21, 31]


def test_a_larger_batch_that_happens_to_fit_is_not_counted_on() -> None:
    assert Reserve(((1, 100), (10, 300), (20, 250), (30, 500))).largest_batch(260) == 8


def test_need_that_does_not_grow_has_the_last_point_as_its_limit() -> None:
    assert Reserve(((1, 100), (2**20, 100))).largest_batch(100) == 2**20
    assert Reserve(((1, 100),)).largest_batch(1000) == 1


def test_the_estimate_takes_the_better_allocator_and_survives_json() -> None:
    small, large, law = both(*HOLED)
    plain = MemoryEstimate(
        train=law, evaluation=None, method="fake", reason="", batch_sizes=(10, 20), notes=(), seconds=0.0
    )
    full = replace(plain, reserves=fit_reserves(small, large, law))
    back = MemoryEstimate.from_record(json.loads(json.dumps(full.as_record())))
    assert back.reserves == full.reserves
    assert plain.largest_batch(6000 * MIB) == 750
    assert (plain.allocator(6000 * MIB), back.allocator(6000 * MIB)) == ("expandable", "default")
    assert back.largest_batch(6000 * MIB) == full.reserves["default"].largest_batch(6000 * MIB)
    assert back.needed_bytes(600) == pytest.approx(600 * 8 * (1 + EXTRA_SHARE) * MIB + EXTRA_BYTES, rel=0.01)
