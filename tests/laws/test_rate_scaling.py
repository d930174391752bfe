"""Scaling rules: there and back is where one was, and what a rule cannot do it refuses."""

import math
import random

import pytest

from legroom.errors import UsageError
from legroom.laws.rate_scaling import RULES, SCALING_RULES, Recipe, scale

ADAM = Recipe(batch_size=32, learning_rate=1e-3, betas=(0.9, 0.999), eps=1e-8)


def a_recipe(rng: random.Random) -> Recipe:
    return Recipe(
        batch_size=rng.randrange(32, 1000),
        learning_rate=rng.uniform(1e-4, 10),
        warmup_epochs=rng.uniform(0, 5),
        betas=(rng.uniform(0.85, 0.95), 0.999),
        eps=1e-8,
    )


def numbers(recipe: Recipe) -> list[float]:
    return [recipe.learning_rate, recipe.warmup_epochs, *(recipe.betas or ()), recipe.eps or 0.0]


@pytest.mark.parametrize("rule", SCALING_RULES)
@pytest.mark.parametrize("seed", range(10))
def test_there_and_back_is_where_one_was(rule, seed):
    rng = random.Random(seed)
    recipe = a_recipe(rng)
    there = scale(rule, recipe, round(recipe.batch_size * rng.uniform(0.1, 6)))
    assert numbers(scale(rule, there, recipe.batch_size)) == pytest.approx(numbers(recipe))


@pytest.mark.parametrize("rule", SCALING_RULES)
@pytest.mark.parametrize("seed", range(10))
def test_two_steps_are_one(rule, seed):
    recipe = a_recipe(random.Random(seed))
    once = scale(rule, recipe, 4 * recipe.batch_size)
    twice = scale(rule, scale(rule, recipe, 2 * recipe.batch_size), 4 * recipe.batch_size)
    assert numbers(twice) == pytest.approx(numbers(once))


@pytest.mark.parametrize("rule", SCALING_RULES)
def test_the_same_batch_size_changes_nothing(rule):
    recipe = a_recipe(random.Random(0))
    assert numbers(scale(rule, recipe, recipe.batch_size)) == pytest.approx(numbers(recipe))


@pytest.mark.parametrize("rule", SCALING_RULES)
def test_a_larger_batch_never_lowers_the_rate(rule):
    rates = [scale(rule, ADAM, size).learning_rate for size in range(1, 319, 7)]
    assert rates == sorted(rates)


@pytest.mark.parametrize("seed", range(10))
def test_legw_keeps_the_number_of_warmup_updates(seed):
    recipe = a_recipe(random.Random(seed))
    num_samples = 1_000_000
    steps = {
        scale("legw", recipe, size).warmup_steps(num_samples / size) for size in (64, 999, 4096, recipe.batch_size)
    }
    assert len(steps) == 1


@pytest.mark.parametrize("seed", range(10))
def test_linear_warmup_starts_at_the_old_rate(seed):
    recipe = a_recipe(random.Random(seed))
    large = scale("linear", recipe, 8 * recipe.batch_size)
    assert large.warmup_start * large.learning_rate == pytest.approx(recipe.learning_rate)
    assert scale("linear", recipe, recipe.batch_size // 2).warmup_start == 1.0


def test_adams_averages_span_as_many_samples_as_before():
    large = scale("adam", ADAM, 200)
    for before, after in zip(ADAM.betas, large.betas, strict=True):
        assert 200 / (1 - after) == pytest.approx(32 / (1 - before))


def test_adams_eps_falls_as_the_rate_grows():
    large = scale("adam", ADAM, 128)
    assert (large.learning_rate, large.eps) == pytest.approx((2e-3, 5e-9))


def test_the_adam_rule_is_refused_from_ten_times_the_batch_on():
    assert 0 < scale("adam", ADAM, 319).betas[0] < 0.01
    for size in (320, 321, 5000):
        with pytest.raises(UsageError, match=r"must be below 1. It goes up to 319; beyond, use the sqrt rule"):
            scale("adam", ADAM, size)


def test_the_adam_rule_needs_betas():
    with pytest.raises(UsageError, match="give both"):
        scale("adam", Recipe(batch_size=32, learning_rate=0.1), 64)


def test_an_unknown_rule_is_refused():
    with pytest.raises(UsageError, match="rules: linear, sqrt, legw, adam"):
        scale("cubic", ADAM, 64)


@pytest.mark.parametrize(
    "wrong",
    [
        {"batch_size": 0},
        {"batch_size": 1.5},
        {"learning_rate": 0.0},
        {"learning_rate": math.nan},
        {"warmup_epochs": -1.0},
        {"warmup_start": 2.0},
        {"betas": (0.9, 1.0)},
        {"eps": -1e-8},
    ],
    ids=str,
)
def test_a_recipe_that_cannot_be_is_refused(wrong):
    with pytest.raises(UsageError, match=next(iter(wrong))):
        Recipe(**{"batch_size": 32, "learning_rate": 0.1} | wrong)


@pytest.mark.parametrize("rule", SCALING_RULES)
@pytest.mark.parametrize("size", [0, -4, 2.5])
def test_a_batch_size_that_cannot_be_is_refused(rule, size):
    with pytest.raises(UsageError, match="whole number"):
        scale(rule, ADAM, size)


def test_every_name_has_a_rule():
    assert tuple(RULES) == SCALING_RULES
