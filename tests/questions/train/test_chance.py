"""Chance: luck has as many tries as there are evaluations."""

import random

from legroom.laws.chance import leaves_chance

NUM_SAMPLES, NUM_CLASSES, NUM_LOOKS, NUM_RUNS = 360, 10, 20, 200


def best_of_guesses(chance):
    scores = [sum(chance.random() < 1 / NUM_CLASSES for _ in range(NUM_SAMPLES)) for _ in range(NUM_LOOKS)]
    return max(scores) / NUM_SAMPLES


def test_who_only_guesses_seldom_leaves_chance_however_often_it_is_judged():
    chance = random.Random(0)
    told = {"goal": "max", "num_samples": NUM_SAMPLES}
    bests = [best_of_guesses(chance) for _ in range(NUM_RUNS)]
    lucky = sum(leaves_chance(best, 1 / NUM_CLASSES, num_looks=NUM_LOOKS, **told) for best in bests)
    assert lucky < 0.08 * NUM_RUNS
    assert sum(leaves_chance(best, 1 / NUM_CLASSES, **told) for best in bests) > 0.2 * NUM_RUNS, "a look is not twenty"
