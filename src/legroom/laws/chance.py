"""When a score is better than that of a model that learned nothing, by more than luck may gain."""

import math
import statistics

LUCK = 1 / 44
"""How often luck alone may pass for learning: at one look, two standard errors of an accuracy."""
SHARE = 0.02
"""Share of chance by which any other score must leave it."""


def chance_margin(chance: float, *, goal: str, num_samples: int | None, num_looks: int = 1) -> float:
    """What luck alone may gain on chance c: z sqrt(c (1 - c) / n) of n samples for an accuracy, else 2 % of c.

    z is 2 for one look at a score, and more for the best of several: luck has as many tries. A score to be raised whose
    chance lies between 0 and 1 counts as an accuracy.

    >>> [round(chance_margin(0.1, goal="max", num_samples=900, num_looks=num), 3) for num in (1, 20)]
    [0.02, 0.031]
    >>> chance_margin(500.0, goal="min", num_samples=900)
    10.0
    """
    if goal == "max" and 0 < chance < 1 and num_samples:
        num_errors = statistics.NormalDist().inv_cdf(1 - LUCK / num_looks)
        return num_errors * math.sqrt(chance * (1 - chance) / num_samples)
    return SHARE * abs(chance)


def leaves_chance(score: float, chance: float, *, goal: str, num_samples: int | None, num_looks: int = 1) -> bool:
    """Whether the score, the best of so many, is better than chance by more than luck may gain.

    >>> leaves_chance(0.13, 0.1, goal="max", num_samples=900), leaves_chance(495, 500, goal="min", num_samples=None)
    (True, False)
    """
    gain = score - chance if goal == "max" else chance - score
    return gain > chance_margin(chance, goal=goal, num_samples=num_samples, num_looks=num_looks)
