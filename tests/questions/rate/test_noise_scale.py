"""The noise scale of gradients whose noise is planted."""

import math
import random

import numpy as np
import pytest

from legroom.questions.rate.noise_scale import GradientSquares, noise_and_signal, noise_scale


def planted(seed, critical, *, num_updates=60, num_weights=400, sizes=(16, 32), shrinks=1.0):
    """Squares of gradients of many weights, with S / G2 as planted; the gradient shrinks from update to update."""
    rng = np.random.default_rng(seed)
    signal = rng.normal(size=num_weights)
    signal /= np.linalg.norm(signal)
    small, big = [], []
    for update in range(num_updates):
        spread = math.sqrt(critical / num_weights / sizes[0])
        passes = [signal + spread * rng.normal(size=num_weights) for _ in range(sizes[1] // sizes[0])]
        scale = shrinks**update
        small.append(scale * float(np.sum(passes[0] ** 2)))
        big.append(scale * float(np.sum(np.mean(passes, axis=0) ** 2)))
    return GradientSquares(small_size=sizes[0], big_size=sizes[1], small=small, big=big)


def test_the_planted_scale_lies_within_its_range_in_nine_of_ten_cases():
    inside = 0
    for seed in range(60):
        critical = 10 ** random.Random(seed).uniform(0.5, 2.5)
        found = noise_scale([planted(seed, critical), planted(seed + 1000, critical)])
        inside += found.range[0] <= critical <= found.range[1]
    assert inside >= 51


def test_averages_come_before_the_ratio():
    seen = planted(0, 300.0, num_updates=400)
    ratios = [s / g for s, g in (noise_and_signal(a, b, 16, 32) for a, b in zip(seen.small, seen.big, strict=True))]
    whole = noise_scale([seen]).batch_size
    assert whole == pytest.approx(300.0, rel=0.25)
    assert abs(math.log(abs(sum(ratios) / len(ratios)) / 300)) > abs(math.log(whole / 300))


def test_parts_with_large_gradients_do_not_drown_the_others():
    early, late = planted(1, 20.0), planted(2, 200.0)
    large = GradientSquares(
        small_size=16, big_size=32, small=[1e6 * s for s in early.small], big=[1e6 * b for b in early.big]
    )
    assert noise_scale([large, late]).batch_size == pytest.approx(noise_scale([early, late]).batch_size)


def test_what_is_all_noise_gives_no_number():
    assert noise_scale([GradientSquares(small_size=16, big_size=32, small=[2.0, 2.0], big=[1.0, 0.9])]) is None
    assert noise_scale([]) is None


def test_an_update_that_is_no_number_is_left_out():
    seen = GradientSquares(small_size=16, big_size=32, small=[7.25, math.nan, 7.25], big=[4.125, 1.0, 4.125])
    assert noise_scale([seen]).batch_size == pytest.approx(100.0)
