"""Whether a score is better than that of a model that learned nothing."""

import math

NUM_ERRORS = 2.0
"""Standard errors by which an accuracy must leave chance: luck goes so far once in forty times."""
SHARE = 0.02
"""Share of chance by which any other score must leave it."""


def chance_margin(chance: float, *, goal: str, num_samples: int | None) -> float:
    """What luck alone may gain on chance c: 2 sqrt(c (1 - c) / n) of n samples for an accuracy, else 2 % of c.

    A score to be raised whose chance lies between 0 and 1 counts as an accuracy.

    >>> chance_margin(0.1, goal="max", num_samples=900)
    0.02
    >>> chance_margin(500.0, goal="min", num_samples=900)
    10.0
    """
    if goal == "max" and 0 < chance < 1 and num_samples:
        return NUM_ERRORS * math.sqrt(chance * (1 - chance) / num_samples)
    return SHARE * abs(chance)


def leaves_chance(score: float, chance: float, *, goal: str, num_samples: int | None) -> bool:
    """Whether the score is better than chance by more than luck may gain.

    >>> leaves_chance(0.13, 0.1, goal="max", num_samples=900), leaves_chance(495, 500, goal="min", num_samples=None)
    (True, False)
    """
    gain = score - chance if goal == "max" else chance - score
    return gain > chance_margin(chance, goal=goal, num_samples=num_samples)
