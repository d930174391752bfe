"""`fits` replayed: which retries are allowed, and what counts as running out of memory."""

import pytest

from legroom.questions.memory.allocator import replay as replay_module
from legroom.questions.memory.allocator.replay import Allocator, Moves, Steps

MIB = 2**20


def moves(*pairs: tuple[int, int]) -> Moves:
    """(storage, MiB): born where the number is positive, dead where it is 0."""
    return [(storage, mib * MIB) for storage, mib in pairs]


ONCE = moves((0, 60), (0, 0), (1, 80), (1, 0))
"""The second block does not fit where the first one was."""
THRASHING = moves((0, 40), (1, 20), (0, 0), (2, 60), (1, 0), (2, 0))
"""In growing segments the second block splits whatever the third one left."""


def test_a_retry_in_the_first_step_lets_fit_what_needs_more_without() -> None:
    steps = Steps(first=ONCE, again=ONCE, after=[])
    assert steps.needed_bytes() == 140 * MIB
    assert steps.fits("expandable", 80 * MIB)
    assert not steps.fits("expandable", 80 * MIB - 1)


def test_retries_of_the_second_step_are_allowed_and_those_of_the_third_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps(first=THRASHING, again=THRASHING, after=[])
    assert steps.needed_bytes() == 120 * MIB
    assert steps.fits("expandable", 120 * MIB)
    assert not steps.fits("expandable", 110 * MIB)
    monkeypatch.setattr(replay_module, "NUM_STEPS", 2)
    assert steps.fits("expandable", 110 * MIB)


def test_a_retry_that_begins_with_the_fifth_step_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps(first=[], again=[], after=[])
    tried: list[int] = []
    monkeypatch.setattr(replay_module, "_play", lambda allocator, moves: _retry_from(allocator, tried, 5))
    assert not steps.fits("expandable", 100 * MIB)
    assert tried == [1, 2, 3, 4, 5]


def _retry_from(allocator: Allocator, tried: list[int], step: int) -> bool:
    tried.append(len(tried) + 1)
    allocator.num_retries += tried[-1] >= step
    return True


def test_the_default_allocator_may_hold_what_growing_segments_thrash_on() -> None:
    steps = Steps(first=THRASHING, again=THRASHING, after=[])
    assert steps.fits("default", 80 * MIB)
    assert not steps.fits("default", 80 * MIB - 1)


def test_an_evaluation_may_retry_but_must_run() -> None:
    steps = Steps(first=moves((0, 20)), again=moves((1, 60), (1, 0)), after=moves((2, 80), (2, 0)))
    assert steps.fits("expandable", 100 * MIB)  # the 60 are given back first
    assert not steps.fits("expandable", 99 * MIB)


def test_gradients_that_live_until_the_next_step_are_buried_in_every_one_of_them() -> None:
    gradients = [(storage, 8) for storage in range(2, 12)]
    grown = [(storage + 20, size) for storage, size in gradients]
    first = moves((0, 100), (1, 80), (1, 0), *gradients)
    again = moves(*((storage, 0) for storage, _ in gradients), (21, 80), (21, 0), *grown)
    steps = Steps(first=first, again=again, after=[])
    assert steps.needed_bytes() == 180 * MIB
    assert steps.fits("expandable", 180 * MIB)
    assert not steps.fits("expandable", 179 * MIB)


def test_what_outlives_its_step_is_replaced_by_its_like_of_the_next() -> None:
    assert Steps(first=[], again=moves((0, 60)), after=[]).fits("expandable", 60 * MIB)
