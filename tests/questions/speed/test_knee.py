"""The knee against planted curves, with the noise of processes that fall into modes."""

import math
import random

import pytest

from legroom.laws.compute import knee_of
from legroom.laws.intervals import process_mean
from legroom.questions.speed.knee import smoothed, timed_knee
from legroom.questions.speed.records import StepTime

SIZES = (1, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096)
NUM_PROCESSES = 5
CURVES = {
    "a line": lambda size: 0.01 + 0.0002 * size,
    "a floor, then a proportion": lambda size: max(0.01, 0.0002 * size),
    "memory fetched anew": lambda size: 0.001 + 0.0001 * size * (1 + max(0.0, math.log2(size / 256)) / 4),
}


def timed(curve, modes=1.0, noise=0.0, seed=0):
    """Each size in five processes, each of which is slower by `modes` at every other size or so."""
    rng = random.Random(seed)

    def point(size):
        paces = [rng.choice((1.0, modes)) * rng.lognormvariate(0, noise) for _ in range(NUM_PROCESSES)]
        mean, spread = process_mean([curve(size) * pace for pace in paces])
        return StepTime(batch_size=size, median_seconds=mean, process_spread=spread)

    return [point(size) for size in SIZES]


def share_of_best(curve, size):
    return size / curve(size) / max(other / curve(other) for other in SIZES)


@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize("share", [0.5, 0.8, 0.93])
def test_where_timings_repeat_themselves_it_is_the_smallest_within_its_share(name, share):
    curve = CURVES[name]
    knee, (low, high) = timed_knee(timed(curve), set(), share)
    assert knee == knee_of(lambda size: size / curve(size), SIZES, share)
    assert low <= knee <= high


def by_the_highest(points):
    """The first that seems to have 90 % of what seems the best."""
    seen = {point.batch_size: point.samples_per_second for point in points}
    return knee_of(seen.__getitem__, SIZES, 0.9)


@pytest.mark.parametrize("name", ["a line", "memory fetched anew"])
def test_in_processes_of_two_modes_it_nearly_always_has_its_share(name):
    curve, runs = CURVES[name], [timed(CURVES[name], modes=1.35, noise=0.03, seed=seed) for seed in range(60)]
    sure = [share_of_best(curve, timed_knee(points, set(), 0.9)[0]) for points in runs]
    naive = [share_of_best(curve, by_the_highest(points)) for points in runs]
    assert sum(share >= 0.84 for share in sure) >= 57
    assert sum(share < 0.9 for share in sure) < 0.6 * sum(share < 0.9 for share in naive)


def test_noise_moves_it_up_and_not_down():
    curve = CURVES["a line"]
    still = timed_knee(timed(curve), set(), 0.9)[0]
    noisy = [timed_knee(timed(curve, noise=0.1, seed=seed), set(), 0.9)[0] for seed in range(60)]
    assert sum(knee >= still for knee in noisy) >= 54


@pytest.mark.parametrize("seed", range(20))
def test_by_the_timings_it_never_falls_below_its_share(seed):
    points = timed(CURVES["a line"], modes=2.0, noise=0.3, seed=seed)
    knee, (low, high) = timed_knee(points, set(), 0.9)
    seen = {point.batch_size: point.samples_per_second for point in points}
    assert seen[knee] >= 0.9 * max(seen.values())
    assert low <= knee <= high


def misses(curve, values):
    """How far ln of each size's share of the best lies from the planted one, all sizes together."""
    return sum(abs(value - math.log(share_of_best(curve, size))) for value, size in zip(values, SIZES, strict=True))


@pytest.mark.parametrize("name", CURVES)
def test_neighbours_tell_of_sizes_that_were_lucky(name):
    curve, runs = CURVES[name], [timed(CURVES[name], noise=0.1, seed=seed) for seed in range(30)]
    alone = [[math.log(p.samples_per_second / max(q.samples_per_second for q in run)) for p in run] for run in runs]
    with_neighbours = sum(misses(curve, smoothed(run)[0]) for run in runs)
    assert with_neighbours < 0.97 * sum(misses(curve, values) for values in alone)


def test_the_range_holds_the_knee_that_timings_without_noise_have():
    curve = CURVES["a line"]
    still = timed_knee(timed(curve), set(), 0.9)[0]
    spans = [timed_knee(timed(curve, noise=0.15, seed=seed), set(), 0.9)[1] for seed in range(60)]
    assert sum(low <= still <= high for low, high in spans) >= 54


def test_one_size_is_its_own_knee():
    assert timed_knee(timed(CURVES["a line"])[:1], set(), 0.9) == (1, (1, 1))
