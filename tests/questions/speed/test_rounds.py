"""Rounds: every subject meets the machine's drift alike."""

import pytest

from legroom.questions.speed.child.steps import MAX_ROUNDS, visit_in_rounds
from legroom.questions.speed.records import TimeSteps
from legroom.testing import FakeClock


class Visitor:
    """Takes a second a visit; a machine that slows down all the while."""

    def __init__(self, *, drift=0.0, too_much=()):
        self.clock, self.order = FakeClock(), []
        self.drift, self.too_much = drift, too_much

    def __call__(self, size):
        self.order.append(size)
        self.clock.advance(1.0)
        if size in self.too_much:
            raise MemoryError
        return size * (1 + self.drift * self.clock())


def run(visit, sizes, clock=None, **more):
    request = TimeSteps(device="cpu", batch_sizes=tuple(sizes), **({"seconds": 1000, "min_rounds": 5} | more))
    return visit_in_rounds(sizes, visit, request, clock or visit.clock)


def test_each_round_visits_each_size_once_in_another_order():
    visitor = Visitor()
    run(visitor, [1, 2, 3, 4])
    rounds = [tuple(visitor.order[start : start + 4]) for start in range(0, len(visitor.order), 4)]
    assert all(sorted(order) == [1, 2, 3, 4] for order in rounds)
    assert len(set(rounds)) > 1


def test_a_drift_falls_on_all_sizes_alike():
    visitor = Visitor(drift=0.01)
    seen = run(visitor, [1, 2, 4, 8], seconds=160)
    means = [sum(values) / len(values) / size for size, values in seen.items()]
    assert max(means) / min(means) < 1.02


def test_it_ends_when_every_median_is_known_well():
    visitor = Visitor()
    assert {len(values) for values in run(visitor, [1, 2]).values()} == {5}


def test_what_is_known_well_leaves_the_time_to_what_is_not():
    visitor, noise = Visitor(), iter([1.0, 1.5] * 100)
    steady = visitor.__call__
    seen = run(lambda size: steady(size) * (next(noise) if size == 2 else 1.0), [1, 2], visitor.clock, seconds=40)
    assert len(seen[1]) == 5
    assert len(seen[2]) > 30


def test_it_ends_when_the_time_is_spent():
    visitor = Visitor(drift=0.05)
    run(visitor, [1, 2], seconds=30)
    assert 30 <= visitor.clock() <= 34


def test_a_machine_that_never_settles_does_not_hold_it_for_ever():
    visitor = Visitor(drift=0.5)
    assert len(run(visitor, [1], seconds=10**9)[1]) == MAX_ROUNDS


@pytest.mark.parametrize("min_rounds", [5, 50])
def test_long_steps_end_before_all_rounds_are_made(min_rounds):
    visitor = Visitor(drift=0.5)
    run(visitor, [1, 2], seconds=2, min_rounds=min_rounds)
    assert visitor.clock() <= 10


def test_what_was_measured_before_memory_ran_out_is_kept():
    visitor = Visitor(too_much=[8])
    seen = run(visitor, [1, 8])
    assert seen[8] == []
    assert len(seen[1]) == 5
    assert visitor.order.count(8) == 1
