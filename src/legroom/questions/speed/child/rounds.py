"""Visits several things in rounds, so that a drift of the machine meets all alike that are not known well yet."""

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

from legroom.clock import Clock, monotonic
from legroom.laws.intervals import relative_width

CLOSE = 0.02
"""Half the interval of a median, as a share of it, at which it is known well enough."""
OVERRUN = 3.0
"""How many times the seconds allowed the first rounds may take before they end unfinished."""
MAX_ROUNDS = 60

Subject = TypeVar("Subject")
Visit = Callable[[Subject], float]
"""Measures once; raises to have that subject left out from then on."""


def measure_in_rounds(
    subjects: Sequence[Subject],
    visit: Visit[Subject],
    *,
    seconds: float,
    min_rounds: int,
    seed: int = 0,
    clock: Clock = monotonic,
    gives_up: tuple[type[BaseException], ...] = (),
) -> dict[Subject, list[float]]:
    """What the visits gave, a value a round, until every median is known well or the time is spent.

    A subject whose median is known well leaves the rounds to the others: what a GPU computes repeats itself to a
    thousandth, what its host launches varies by a third. One whose visit raises one of `gives_up` keeps what it has.
    """
    order, started = random.Random(seed), clock()
    seen: dict[Subject, list[float]] = {subject: [] for subject in subjects}
    left = list(subjects)
    for round_number in range(1, MAX_ROUNDS + 1):
        for subject in order.sample(left, len(left)):
            try:
                seen[subject].append(visit(subject))
            except gives_up:
                left.remove(subject)
        spent = clock() - started
        if spent > OVERRUN * seconds or (round_number >= min_rounds and spent > seconds):
            break
        if round_number >= min_rounds:
            left = [subject for subject in left if relative_width(seen[subject]) > CLOSE]
        if not left:
            break
    return seen
