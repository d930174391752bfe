"""Which of several trunks is ahead, which cannot win any more, and at which rate the best should lie."""

import math
import statistics
from collections.abc import Sequence

import numpy as np

from legroom.questions.rate.evidence import Judge, Point, Trunk, has_risen, loss_at, steps_by_seed
from legroom.questions.rate.records import RateQuestion

TOO_FAR, HOPELESS = 1.25, 2.5
"""A trunk that is behind by so many times the updates twice in a row, or once, cannot win any more."""
FARTHEST = 10.0
"""From the winner, as a factor: rates further away say nothing of the bottom."""
STILL_FALLS = 0.97
"""Times its least loss so far: what a longer run must come to, to count as still learning."""
ALIKE = 1.1
"""Times the fewest updates: as far as seeds differ."""


def behind(trunk: Trunk, best: Trunk, trunks: Sequence[Trunk]) -> float:
    """Times the updates of the best that a trunk took to the furthest value which both have come to.

    Where the best was there at its first look, that of the trunks stands for it which others show to be there first.
    Infinite where one of both is no better than before its first update, or nobody knows when it was there.
    """
    if trunk.learning_rate == best.learning_rate:
        return 1.0
    value = max(trunk.best, best.best)
    at_first = bool(best.points) and best.points[0].value <= value
    others = [each for each in trunks if each is not trunk] if at_first else [best]
    needed = [each.steps_from_start(value) for each in others]
    mine, fewest = trunk.steps_from_start(value), min((steps for steps in needed if steps is not None), default=0.0)
    return mine / fewest if mine and fewest else math.inf


def lags(point: Point, others: Sequence[Trunk]) -> float:
    """Times the updates of the fastest of the others to the same value, or the same loss, whichever is kinder.

    A score of a few hundred samples tells two runs apart by luck.
    """
    return min(_lags(point, others, "value"), _lags(point, others, "loss"))


def _lags(point: Point, others: Sequence[Trunk], judge: Judge) -> float:
    """1 where no other was there; infinite where it is no better than before its first update and another is.

    Another that was there at its first look counts by that: at high rates what comes before is fast and soon over.
    """
    value = point.judged(judge)
    if not math.isfinite(value) or any(other.steps_from_start(value, judge) == 0 for other in others):
        return math.inf
    needed = [steps for other in others if (steps := other.steps_to(value, judge)) is not None]
    return point.num_steps / min(needed, default=point.num_steps)


def leader(trunks: Sequence[Trunk], length: int) -> Trunk:
    """The trunk with the least loss among those that were grown as far; with the least value where losses had risen.

    One that has collapsed leads only where all have: what it was before, no longer run will be.
    """
    standing = [trunk for trunk in trunks if not has_collapsed(trunk)] or list(trunks)
    grown = [trunk for trunk in standing if trunk.last is not None and trunk.last.to_step >= length] or standing
    first: Judge = "loss" if not any(has_risen(trunk.points) for trunk in grown) else "value"
    return min(grown, key=lambda trunk: (trunk.least(first), trunk.best, trunk.least("loss")))


def survivors(trunks: Sequence[Trunk], rates: Sequence[float], length: int) -> list[float]:
    """The rates that may still win: the leader, and those not too far behind at this length and the one before.

    One that has only harmed the model is none of them once another has not, whatever its score: that may be luck. Nor
    is one that has collapsed, and none is behind it.
    """
    best, found = leader(trunks, length), []
    standing = [trunk for trunk in trunks if trunk.diverged_at is None and not has_collapsed(trunk)]
    for trunk in standing:
        if trunk is not best and (trunk.learning_rate not in rates or (is_harmed(trunk) and not is_harmed(best))):
            continue
        far = [lags(point, [each for each in standing if each is not trunk]) for point in trunk.points[-2:]]
        lost = far[-1] > HOPELESS or (len(far) == 2 and min(far) > TOO_FAR)
        if trunk is best or not lost:
            found.append(trunk.learning_rate)
    return found


def reached(trunks: Sequence[Trunk], question: RateQuestion) -> float | None:
    """The fewest updates in which a trunk reaches the target; None where none does."""
    found = [steps for trunk in trunks if (steps := trunk.steps_to(question.wanted)) is not None]
    return min(found, default=None)


def winner(trunks: Sequence[Trunk], question: RateQuestion, seeds: Sequence[Trunk] = ()) -> Trunk | None:
    """The trunk that reaches the target in the fewest updates; the one with the least value where none does.

    Runs to a score are compared at the loss with which one came to it, those with which most seeds have the score
    before others. A rate that other seeds were tried with counts by the middle of them, and comes last where that is
    not there. Of those that need hardly more it is the one nearest to the bottom of the parabola through all: between
    such, the luck of a seed decides, and the parabola stands on more than one of them.
    """
    if not trunks:
        return None
    seen = [*trunks, *seeds]
    judge, wanted = _yardstick(seen, question)
    there = [(steps, trunk) for trunk in trunks if (steps := trunk.steps_to(wanted, judge))]
    if not there:
        return leader(trunks, 0)
    there = [pair for pair in there if not is_given_up(pair[1], seen, question)] or there
    held = [(statistics.median(steps_by_seed(seen, trunk, wanted, judge)), trunk) for _, trunk in there]
    there = [pair for pair in held if math.isfinite(pair[0])] or there
    if judge == "loss":
        there = [pair for pair in there if is_held(pair[1], seen, question)] or there
    fewest, best = min(there, key=lambda pair: pair[0])
    lowest = bottom(trunks, best)
    if lowest is None:
        return best
    equal = [trunk for steps, trunk in there if steps <= ALIKE * fewest]
    return min(equal, key=lambda trunk: abs(math.log(trunk.learning_rate / lowest)))


def _yardstick(seen: Sequence[Trunk], question: RateQuestion) -> tuple[Judge, float]:
    """By what runs to the target are compared."""
    loss = loss_at(seen, question.wanted) if question.target_name == "score" else None
    return ("value", question.wanted) if loss is None else ("loss", loss)


def bottom(trunks: Sequence[Trunk], best: Trunk) -> float | None:
    """The rate at which the parabola through the winner and its neighbours is lowest, in ln updates over ln rate."""
    near = [trunk for trunk in trunks if abs(math.log(trunk.learning_rate / best.learning_rate)) < math.log(FARTHEST)]
    points = [(math.log(trunk.learning_rate), math.log(behind(trunk, best, trunks))) for trunk in near]
    points = [point for point in points if math.isfinite(point[1])]
    if len(points) < 3:
        return None
    curve = np.polyfit([x for x, _ in points], [y for _, y in points], 2)
    if curve[0] <= 0:
        return None
    place = float(-curve[1] / (2 * curve[0]))
    low, high = min(points)[0], max(points)[0]
    return math.exp(min(high, max(low, place)))


def is_harmed(trunk: Trunk) -> bool:
    """Whether all its runs came to a higher loss than the model has before any update: its rate is too high."""
    return trunk.start is not None and trunk.least("loss") > trunk.start.loss


def has_collapsed(trunk: Trunk) -> bool:
    """Whether more than half of what it had gained on the untrained model is lost again, in loss and value."""
    last, start = trunk.last, trunk.start
    if last is None or start is None:
        return False
    judges: tuple[Judge, ...] = ("loss", "value")
    gained = [start.judged(judge) - trunk.least(judge) for judge in judges]
    left = [start.judged(judge) - last.judged(judge) for judge in judges]
    return all(most > 0 and 2 * now < most for most, now in zip(gained, left, strict=True))


def is_held(best: Trunk, seen: Sequence[Trunk], question: RateQuestion) -> bool:
    """Whether more than half of the seeds reach the target with the rate of that trunk."""
    seeds = {trunk.seed for trunk in seen if trunk.learning_rate == best.learning_rate and _is_there(trunk, question)}
    return len(seeds) > question.num_seeds / 2


def is_given_up(best: Trunk, seen: Sequence[Trunk], question: RateQuestion) -> bool:
    """Whether so many other seeds have settled short of the target with its rate that most will never reach it.

    A model that is sure of what it gets wrong stays there, however long the run.
    """
    others = [trunk for trunk in seen if trunk.learning_rate == best.learning_rate and trunk.seed != best.seed]
    return sum(not _is_there(trunk, question) and _is_over(trunk) for trunk in others) >= question.num_seeds / 2


def _is_over(trunk: Trunk) -> bool:
    """Whether it diverged, or its loss fell no more from one length to the next."""
    losses = [point.loss for point in trunk.points]
    return trunk.diverged_at is not None or (len(losses) > 1 and losses[-1] > STILL_FALLS * min(losses[:-1]))


def _is_there(trunk: Trunk, question: RateQuestion) -> bool:
    return trunk.steps_to(question.wanted) is not None
