"""Which batch, passes and number of devices reach the target soonest, cheapest or with the least energy."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from legroom.laws.time_to_target import energy_joules, money, steps_to_target
from legroom.questions.plan.candidates import FEWEST_UPDATES, Candidate, Learned, candidate, sizes_of
from legroom.questions.plan.factors import pace_of
from legroom.questions.plan.groups import numbers_of
from legroom.questions.plan.records import PlanQuestion, Rehearsal
from legroom.questions.plan.tried import (
    are_steady,
    are_there,
    as_tried,
    counted_steps,
    is_clear,
    length_after,
    rehearsals_of,
    spread_of,
)
from legroom.questions.speed.answer import SpeedAnswer

WORTH = 0.9
"""Of the cost at a batch where the rate was measured: another one must cost less to be worth its doubt."""
STEADIER, STEADIER_STEPS = 0.5, 1.2
"""Times the rate, tried where runs at the rate that was found lie far apart or miss the target: a rate near the edge of
divergence gets there with one seed and not with the next. And times the updates that needs, where nothing tells."""
NUM_RUNS = 3
"""Of a choice, to try it out."""
SHORTER, MOST_CUTS, NUM_SHORTER = 0.8, 3, 8
"""Times the length, tried where every run that was made reached the target only at its end; how often in a row; and
how many runs must all be there: a seed that misses is worse than a run that is a fifth longer."""
GUESSED = 4.0
"""Times the job's own batch: a first guess of the critical batch size, before any was measured."""
Cost = Callable[[Candidate], float]


def cost_of(goal: str, price_per_hour: float | None, effort: Callable[[int], float] | None) -> Cost:
    """What is to be least: seconds, money, or what the samples take of energy.

    Money is the same as seconds on one device; with several of them more hours are paid for. effort: of one sample at
    that batch; where nobody can tell it, seconds of all devices stand for energy.
    """
    if goal == "fastest":
        return lambda one: one.seconds
    if goal == "frugal" and effort is not None:
        return lambda one: one.energy_factor * energy_joules(one.num_steps * one.size, effort(one.batch_size))
    return lambda one: money(one.seconds, one.num_paid, price_per_hour or 1.0)


def cheapest(candidates: Iterable[Candidate], cost: Cost, measured: Sequence[int]) -> Candidate:
    """The candidate that costs least; one at another batch than those measured must be clearly better."""
    found = list(candidates)
    best = min(found, key=lambda one: (cost(one), one.size))
    known = [one for one in found if one.size in measured]
    if best.size in measured or not known:
        return best
    stay = min(known, key=lambda one: (cost(one), one.size))
    return best if cost(best) < WORTH * cost(stay) else stay


def effort_of(speed: SpeedAnswer, num_cores: int) -> Callable[[int], float] | None:
    """What a sample takes at a batch: joules where the device counts them, else core seconds; None where neither."""
    known = {int(point["batch_size"]): effort for point in speed.points if (effort := _effort(point, num_cores))}
    return (lambda size: known[min(known, key=lambda one: abs(math.log(one / size)))]) if known else None


def _effort(point: Mapping[str, float | None], num_cores: int) -> float | None:
    if joules := point.get("joules_per_sample"):
        return joules
    busy, seconds, size = point.get("utilisation"), point["median_seconds"], point["batch_size"]
    return busy * num_cores * seconds / size if busy and seconds and size else None


def first_batch(
    own: int, sizes: Sequence[int], step_seconds: Callable[[int], float], num_samples: int | None, most: int
) -> int:
    """The batch at which the rate is measured first: the soonest by a guess of the critical batch size.

    A branch of `rate` then tells the critical batch size, and the batch is chosen again. Below the job's own batch it
    does not begin: by that guess no such batch is sooner, but for noise.

    >>> first_batch(32, [16, 32, 64, 128, 256], lambda size: 0.001 + 0.00001 * size, 60_000, 256)
    128
    """
    learns = max(own, num_samples // FEWEST_UPDATES) if num_samples else most
    allowed = [size for size in {*sizes, own} if own <= size <= min(learns, most)] or [min(own, most)]
    return min(allowed, key=lambda size: (steps_to_target(size, 1, GUESSED * own) * step_seconds(size), size))


def ways(question: PlanQuestion, most: int | None = None) -> list[Candidate]:
    """All ways to run of which it is known how many updates they need and what one takes."""
    pace, learned = pace_of(question), Learned.of(question)
    if pace is None or not learned.rates:
        return []
    found = [
        one
        for num in numbers_of(question)
        for size in sizes_of(question, learned, most, num)
        if (one := candidate(question, pace, learned, size, num))
    ]
    unsteady = [one for one in found if (runs := rehearsals_of(question, one)) and not are_steady(runs)]
    found += [_steadier(one, learned) for one in unsteady]
    return [*found, *(cut for one in found for cut in _shorter(question, one))]


def _shorter(question: PlanQuestion, one: Candidate) -> list[Candidate]:
    """The same in fewer updates, shorter again and again as long as every run reached the target at its end.

    A run cools down at its end, so that it reaches the target no sooner than it was made to, however easily.
    """
    found: list[Candidate] = []
    while len(found) < MOST_CUTS and _is_held(one, runs := rehearsals_of(question, one)):
        length = length_after(runs)
        if min(counted_steps(runs)) <= SHORTER * length:
            break
        one = replace(one, length_share=SHORTER * one.length_share, num_steps=SHORTER * length)
        found.append(one)
    return found


def num_cuts(one: Candidate) -> int:
    """How often it was made shorter."""
    return round(math.log(one.length_share, SHORTER))


def _steadier(one: Candidate, learned: Learned) -> Candidate:
    """The same at a lower rate, with the updates that this is known to need."""
    half = learned.near(one.size).sensitivity.get("half")
    return replace(one, rate_share=STEADIER, num_steps=one.num_steps * max(1.0, half or STEADIER_STEPS))


def choose(
    question: PlanQuestion, most: int | None = None, *, untried: bool = False, shorter: bool = False
) -> Candidate | None:
    """The way to run that costs least by what is known; None where no rate reached the target, or nothing was timed.

    Where some were tried out it is one of them: what others would take is a promise. untried: one of the others, as
    long as was promised, or, shorter, in fewer updates than what was tried out.
    """
    found, cost = ways(question, most), question_cost(question)
    tried = {one: runs for one in found if (runs := rehearsals_of(question, one)) and _can_rest_on(one, runs)}
    if untried:
        found = [one for one in found if not rehearsals_of(question, one) and (one.length_share < 1) == shorter]
    elif tried:
        # By the far end of their range: of two that take as long in the middle, the one that always does.
        best = min(tried, key=lambda one: (not are_there(tried[one]), _far_end(question, one, tried[one], cost)))
        return as_tried(question, best, tried[best])
    return cheapest(found, cost, list(Learned.of(question).rates)) if found else None


def _can_rest_on(one: Candidate, runs: Sequence[Rehearsal]) -> bool:
    """Whether these runs may stand for a choice: of a shorter run all must have been there, and enough of them made."""
    return one.length_share == 1 or _is_held(one, runs)


def _is_held(one: Candidate, runs: Sequence[Rehearsal]) -> bool:
    """Whether as many runs as it takes were made, and all reached the target in about as many updates.

    Those of a shorter run by more than luck, too: what is made shorter stops at the length where the next seed misses.
    """
    if one.length_share == 1:
        return len(runs) >= NUM_RUNS and are_steady(runs)
    return len(runs) >= NUM_SHORTER and are_steady(runs) and is_clear(runs)


def _far_end(question: PlanQuestion, one: Candidate, runs: Sequence[Rehearsal], cost: Cost) -> float:
    return cost(as_tried(question, one, runs)) * spread_of(counted_steps(runs))


def question_cost(question: PlanQuestion) -> Cost:
    """What is to be least by the question's goal."""
    effort = _effort_in(question)
    return cost_of(question.goal, question.price_per_hour, effort)


def knows_energy(question: PlanQuestion) -> bool:
    """Whether anything tells what a sample takes of energy."""
    return _effort_in(question) is not None


def _effort_in(question: PlanQuestion) -> Callable[[int], float] | None:
    return effort_of(question.speed, question.num_cores) if question.speed else None
