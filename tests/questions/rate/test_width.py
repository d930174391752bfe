"""Which rates are told as equally good."""

import math

import pytest

from legroom.questions.rate.evidence import Point, Trunk
from legroom.questions.rate.width import MOST_SPREAD, plausible_rates


def trunk(rate, steps):
    """One that halves its loss with every doubling of its updates, and is at 1 after so many."""
    points = [Point(to_step=n, num_steps=n, num_samples=n, value=steps / n) for n in (50, 100, 200, 400)]
    return Trunk(learning_rate=rate, batch_size=1, seed=0, points=points)


def width(steps):
    best = trunk(0.1, 100)
    low, high = plausible_rates([trunk(0.1 / 3, 200), best, trunk(0.1 * 3, 200)], best, steps)
    assert low * high == pytest.approx(0.01)
    return math.sqrt(high / low)


def test_rates_are_as_good_within_what_seeds_differ_by_and_never_further_than_was_tried():
    assert width([100.0]) == width([100.0, 101.0, 102.0]) < width([80.0, 100.0, 130.0]) < MOST_SPREAD
    assert width([10.0, 100.0, 1000.0]) == pytest.approx(MOST_SPREAD)
