"""The law of a step's time, against planted curves."""

import math
import random

import pytest

from legroom.laws.compute import fit_speed, knee_of
from legroom.laws.intervals import median_interval
from legroom.questions.speed.batch_sizes import choose_sizes, grid

CURVES = {
    "a line": lambda size: 0.01 + 0.0003 * size,
    "a floor, then a proportion": lambda size: max(0.01, 0.0003 * size),
    "a floor, then a line": lambda size: max(0.01, 0.004 + 0.0003 * size),
    "no floor": lambda size: 0.0003 * size,
    "only a floor": lambda size: 0.01,
    "caches that end": lambda size: 0.01 + 0.0003 * size + 0.0001 * max(0, size - 256),
}


def fitted(curve, sizes):
    chosen = choose_sizes(sizes, curve)
    return fit_speed([(size, curve(size)) for size in chosen]), chosen


@pytest.mark.parametrize("name", CURVES)
def test_four_sizes_foretell_all_others(name):
    curve, sizes = CURVES[name], grid(1, 1024)
    law, chosen = fitted(curve, sizes)
    errors = [abs(law.seconds(size) / curve(size) - 1) for size in sizes if size not in chosen]
    assert len(chosen) == 4
    assert sum(errors) / len(errors) < 0.04
    assert max(errors) < 0.16


@pytest.mark.parametrize("seed", range(30))
def test_the_law_passes_through_what_was_measured(seed):
    rng = random.Random(seed)
    points = [(size, 0.01 * size**0.7 * rng.uniform(0.8, 1.2)) for size in (1, 7, 40, 500)]
    law = fit_speed(points)
    assert all(law.seconds(size) == pytest.approx(seconds) for size, seconds in points)


def steps_from_the_planted_knee(seed):
    """Grid steps between the knee by a law from four sizes and the planted one."""
    rng = random.Random(seed)
    floor, each, sharp = 10 ** rng.uniform(-3, -1), 10 ** rng.uniform(-5, -3), rng.choice([1, 2, 8])

    def curve(size):
        return (floor**sharp + (each * size) ** sharp) ** (1 / sharp)

    sizes = grid(1, 2048)
    law, _ = fitted(curve, sizes)
    found = knee_of(law.samples_per_second, sizes, 0.9)
    planted = knee_of(lambda size: size / curve(size), sizes, 0.9)
    return abs(sizes.index(found) - sizes.index(planted))


def test_the_knee_of_four_sizes_is_nearly_always_within_one_step_of_the_planted_one():
    steps = [steps_from_the_planted_knee(seed) for seed in range(100)]
    assert sum(step <= 1 for step in steps) >= 95
    assert max(steps) <= 2


def test_a_planted_line_is_recovered():
    law, _ = fitted(CURVES["a line"], grid(1, 1024))
    assert law.sharpness == 1.0
    assert law.floor_seconds == pytest.approx(0.01, rel=0.05)
    assert law.bend == pytest.approx(0.01 / 0.0003, rel=0.08)


@pytest.mark.parametrize("sizes", [[4], [4, 8], [3, 5, 9]])
def test_fewer_than_four_sizes_are_all_used(sizes):
    law, chosen = fitted(CURVES["a line"], sizes)
    assert chosen == sizes
    assert law.seconds(sizes[0]) == pytest.approx(CURVES["a line"](sizes[0]))


def test_the_interval_of_a_median_covers_it_as_often_as_it_says():
    rng = random.Random(0)
    draws = [median_interval([rng.expovariate(1) for _ in range(9)]) for _ in range(2000)]
    covered = sum(low <= math.log(2) <= high for low, high in draws) / len(draws)
    assert 0.94 <= covered <= 0.98
