"""Histories replayed at other batch sizes, and what is read between the sizes replayed."""

import json
import random
from dataclasses import replace

import pytest

from legroom.laws.envelope import fit, pair
from legroom.laws.ledger import Event, MemoryEstimate, Trace
from legroom.laws.memory import MemoryLaw
from legroom.laws.replay import EXTRA_BYTES, EXTRA_SHARE, fit_reserve, replay
from legroom.laws.reserve import Reserve

MIB = 2**20


def history(size: int, *steps: tuple[int, int]) -> Trace:
    """Steps (storage, MiB a sample): born where the number is positive, dead where it is 0."""
    events = tuple(
        Event(storage=storage, num_bytes=mib * MIB * size or None, phase="forward", category="activations")
        for storage, mib in steps
    )
    return Trace(batch_size=size, events=events)


HOLED = ((0, 4), (1, 1), (0, 0), (2, 5), (1, 0))
"""Four, then one that lives on behind it; five do not fit the hole that four left."""


def both(*steps: tuple[int, int]) -> tuple[Trace, Trace, MemoryLaw]:
    small, large = history(10, *steps), history(20, *steps)
    return small, large, fit(small, large)[0]


def test_holes_count_though_the_storages_alone_would_fit() -> None:
    small, large, law = both(*HOLED)
    assert law.at(100) == 600 * MIB
    moments = pair(small, large)
    assert moments is not None
    assert replay(moments, 100).reserved_bytes == 1000 * MIB
    reserve = fit_reserve(small, large, law)
    assert reserve is not None
    assert reserve.largest_batch(1000 * MIB) == pytest.approx((1000 * MIB - EXTRA_BYTES) / 1.005 / 10 / MIB, abs=2)


def test_events_that_cannot_be_paired_are_not_replayed() -> None:
    assert fit_reserve(history(4, (0, 1)), history(8, (0, 1), (1, 1)), MemoryLaw(())) is None


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
        small, large, law = both(*steps)
        moments = pair(small, large)
        assert moments is not None
        for size in (1, 7, 100):
            found = replay(moments, size)
            assert found.needed_bytes >= law.at(size)
            assert found.reserved_bytes >= law.at(size)


def test_between_points_a_line_is_drawn_and_beyond_the_last_it_goes_on() -> None:
    reserve = Reserve(((1, 100), (11, 200), (21, 400)))
    assert [reserve.at(size) for size in (1, 6, 11, 16, 31)] == [100, 150, 200, 300, 600]
    assert [reserve.largest_batch(budget) for budget in (99, 100, 199, 200, 400, 600)] == [0, 1, 10, 11, 21, 31]


def test_a_larger_batch_that_happens_to_fit_is_not_counted_on() -> None:
    assert Reserve(((1, 100), (10, 300), (20, 250), (30, 500))).largest_batch(260) == 8


def test_need_that_does_not_grow_has_the_last_point_as_its_limit() -> None:
    assert Reserve(((1, 100), (2**20, 100))).largest_batch(100) == 2**20
    assert Reserve(((1, 100),)).largest_batch(1000) == 1


def test_the_estimate_takes_the_smaller_of_both_answers_and_survives_json() -> None:
    small, large, law = both(*HOLED)
    plain = MemoryEstimate(
        train=law, evaluation=None, method="fake", reason="", batch_sizes=(10, 20), notes=(), seconds=0.0
    )
    full = replace(plain, reserve=fit_reserve(small, large, law))
    back = MemoryEstimate.from_record(json.loads(json.dumps(full.as_record())))
    assert back.reserve == full.reserve
    assert plain.largest_batch(6000 * MIB) == 1000
    assert back.largest_batch(6000 * MIB) == pytest.approx(594, abs=2)
    assert back.needed_bytes(594) == pytest.approx(594 * 10 * (1 + EXTRA_SHARE) * MIB + EXTRA_BYTES, rel=0.01)
