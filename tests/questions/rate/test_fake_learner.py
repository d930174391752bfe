"""The planted learner: its laws, so that what a question finds out about it can be compared with the truth."""

import math
import random

import pytest

from legroom.testing import FakeLearner


def planted(number, **more):
    chance = random.Random(number)
    s_min, b_crit = chance.uniform(50, 400), chance.uniform(20, 800)
    return FakeLearner(s_min=s_min, b_crit=b_crit, best_rate=10 ** chance.uniform(-4, 0), **more)


def train(learner, num_updates, batch_size, rates=None):
    """Train at the best rate, or at the rates that a function of the update gives."""
    for update in range(num_updates):
        learner.step(rate=rates(update) if rates else learner.best_rate, batch_size=batch_size)
    return learner


def to_target(learner, batch_size):
    """Updates and samples until the loss is the target's."""
    while learner.evaluate() > learner.target_loss * (1 + 1e-9):
        learner.step(rate=learner.best_rate, batch_size=batch_size)
    return learner.num_updates, learner.num_samples


@pytest.mark.parametrize("seed", range(5))
def test_updates_to_the_target_follow_s_min_and_b_crit(seed):
    for batch_size in (8, 64, 512, 4096):
        learner = planted(seed)
        num_updates, num_samples = to_target(learner, batch_size)
        assert num_updates == pytest.approx(learner.s_min * (1 + learner.b_crit / batch_size), rel=0.05)
        assert num_samples == pytest.approx(learner.s_min * (batch_size + learner.b_crit), rel=0.05)


@pytest.mark.parametrize("seed", range(5))
def test_a_larger_batch_needs_fewer_updates_and_more_samples(seed):
    found = [to_target(planted(seed), batch_size) for batch_size in (8, 64, 512, 4096)]
    updates, samples = zip(*found, strict=True)
    assert list(updates) == sorted(updates, reverse=True)
    assert list(samples) == sorted(samples)


@pytest.mark.parametrize("seed", range(5))
def test_the_best_rate_is_best_and_the_fall_to_both_sides_is_a_parabola_in_the_logarithms(seed):
    def log_loss(shift):
        learner = planted(seed)
        return math.log(train(learner, 100, 64, lambda _: learner.best_rate * math.exp(shift)).evaluate())

    losses = [log_loss(shift) for shift in (-1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5)]
    assert min(losses) == losses[3]
    assert losses == pytest.approx(losses[::-1])
    falls = [loss - losses[3] for loss in losses]
    assert falls[0] == pytest.approx(9 * falls[2])
    assert falls[1] == pytest.approx(4 * falls[2])


def test_far_from_the_best_rate_nothing_is_learned():
    learner = planted(0)
    for factor in (1e-3, 0.1, 10.0, 1e3):
        train(learner, 50, 64, lambda _, factor=factor: factor * learner.best_rate)
    assert learner.evaluate() == pytest.approx(learner.start_loss)


def floor(number, batch_size, factor, noise=0.02):
    """What a long run at one rate leaves above what it has learned, in the mean of many updates."""
    learner = train(planted(number, noise=noise), 4000, batch_size)
    seen = []
    for _ in range(1500):
        learner.step(rate=factor * learner.best_rate, batch_size=batch_size)
        seen.append(learner.evaluate())
    return sum(seen) / len(seen)


def test_a_constant_rate_leaves_a_floor_in_proportion_to_rate_and_noise_over_batch():
    learner = planted(1)
    size = round(learner.b_crit)
    assert floor(1, size, 1.0) == pytest.approx(0.02, rel=0.2)
    assert floor(1, size, 1.0, noise=0.04) == pytest.approx(0.04, rel=0.2)
    assert floor(1, 4 * size, 1.0) == pytest.approx(0.005, rel=0.2)
    assert floor(1, size, 0.5) == pytest.approx(0.01, rel=0.2)


@pytest.mark.parametrize("seed", range(5))
def test_a_cooldown_removes_the_floor_and_a_longer_run_at_the_same_rate_does_not(seed):
    trunk = planted(seed, noise=0.05, seed=seed)
    size = round(trunk.b_crit)
    train(trunk, 3000, size)
    stays, cools = train(trunk.copy(), 1000, size), trunk.copy()
    train(cools, 1000, size, lambda update: trunk.best_rate * (1 - update / 1000))
    assert stays.evaluate() > 0.4 * 0.05
    assert cools.evaluate() < 0.2 * 0.05


def test_a_rate_above_the_bound_blows_up_and_one_at_it_does_not():
    calm, wild = (planted(2, diverges_above=1.0) for _ in range(2))
    train(calm, 100, 64, lambda _: 1.0)
    train(wild, 100, 64, lambda _: 1.0 + 1e-9)
    assert calm.evaluate() <= calm.start_loss
    assert wild.evaluate() > 1e20
    assert train(wild, 1000, 64, lambda _: 2.0).evaluate() == math.inf


def test_equal_seeds_give_equal_noise_and_others_do_not():
    losses = [train(planted(3, noise=0.05, seed=seed), 200, 32).evaluate() for seed in (0, 0, 1)]
    assert losses[0] == losses[1] != losses[2]


def test_a_copy_goes_on_as_the_learner_would_and_leaves_it_alone():
    learner = train(planted(4, noise=0.05), 50, 32)
    before, other = learner.evaluate(), learner.copy()
    train(other, 30, 32)
    assert learner.evaluate() == before
    assert (learner.num_updates, other.num_updates) == (50, 80)
    assert train(learner, 30, 32).evaluate() == other.evaluate()
