"""The law of updates by batch size recovers what was planted, and says how sure it is."""

import math
import random

import pytest

from legroom.errors import UsageError
from legroom.laws.steps import StepsLaw, best_batch, best_rate, fit_steps

SIZES = (16, 32, 64, 128, 256, 512, 1024)


@pytest.mark.parametrize("critical", [8.0, 100.0, 3000.0])
def test_without_noise_the_fit_is_exact(critical):
    law = StepsLaw(least_steps=300.0, critical_batch_size=critical)
    found = fit_steps(SIZES, [law.steps(size) for size in SIZES])
    assert found.critical_batch_size == pytest.approx(critical, rel=0.01)
    assert found.least_steps == pytest.approx(300.0, rel=0.01)


def test_the_interval_holds_the_planted_critical_batch_in_nine_of_ten_cases():
    held = 0
    for seed in range(200):
        rng = random.Random(seed)
        law = StepsLaw(least_steps=10 ** rng.uniform(2, 4), critical_batch_size=10 ** rng.uniform(1.5, 3))
        counts = [law.steps(size) * rng.lognormvariate(0, 0.1) for size in SIZES]
        low, high = fit_steps(SIZES, counts).critical_range
        held += low <= law.critical_batch_size <= high
    assert held >= 0.85 * 200


def test_a_larger_batch_never_needs_more_updates_nor_fewer_samples():
    law = StepsLaw(least_steps=100.0, critical_batch_size=64.0)
    steps, samples = [law.steps(size) for size in SIZES], [law.samples(size) for size in SIZES]
    assert steps == sorted(steps, reverse=True)
    assert samples == sorted(samples)


def test_counts_that_do_not_fall_bound_the_critical_batch_from_above_alone():
    low, high = fit_steps(SIZES, [500.0] * len(SIZES)).critical_range
    assert low == 0.0
    assert high < 16


def test_counts_that_halve_with_every_doubling_bound_it_from_below_alone():
    low, high = fit_steps(SIZES, [1e6 / size for size in SIZES]).critical_range
    assert low > 1024
    assert high == math.inf


def test_one_batch_size_tells_nothing():
    with pytest.raises(UsageError, match="two batch sizes"):
        fit_steps([32, 32], [100, 110])


def test_where_a_step_costs_the_same_the_largest_batch_is_soonest():
    law = StepsLaw(least_steps=100.0, critical_batch_size=64.0)
    assert best_batch(law, lambda size: 0.01, SIZES) == 1024
    assert best_batch(law, lambda size: 0.001 * size, SIZES) == 16


def test_the_best_rate_grows_with_the_batch_below_the_critical_one_and_levels_off_beyond():
    rates = [best_rate(0.01, 16, size, 128.0, 1.0) for size in (16, 32, 4096, 8192)]
    assert rates[1] / rates[0] == pytest.approx(2, rel=0.15)
    assert rates[3] / rates[2] == pytest.approx(1, rel=0.05)
