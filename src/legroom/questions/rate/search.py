"""The search for a rate: a ramp brackets it, trunks at a few rates grow side by side, and losers end early."""

import math
import statistics
from collections.abc import Sequence

import numpy as np

from legroom.questions.rate.evidence import Evidence, Judge, Point, Trunk, loss_at, steps_by_seed
from legroom.questions.rate.growing import COOLDOWN, LEAST_STEPS, Growing, branch_batches, warmup_steps
from legroom.questions.rate.ramps import diverging_rate, middle, read_ramp
from legroom.questions.rate.records import RateQuestion
from legroom.session import Session

NUM_RAMPS = 2
SHARES = (1 / 3, 1 / 10, 1 / 30)
"""Of the diverging rate: where trunks begin. The best rate lies there for nearly every job and optimizer."""
STEP = 3.0
"""Between neighbouring rates, as a factor."""
GROWTH = 1.5
"""Between the lengths at which runs are judged."""
SETTLED = 2.5
"""Times the warm-up: before, runs at high rates are ahead because they have passed the good ones."""
TOO_FAR, HOPELESS = 1.25, 2.5
"""A trunk that is behind by so many times the updates twice in a row, or once, cannot win any more."""
LONGEST, LONGEST_SAME = 3.0, 1.5
"""Times the job's own updates: no run is grown further. What the job's own settings reach, they reach themselves: a
rate that takes much longer is of no use."""
FIRST_SHARE = 0.35
"""Of the budget, for the first look at the rates, as far as its warm-up is of the search's own accord."""
SEARCH_SHARE = 0.6
"""Of the budget, for the first seed; the rest confirms it."""
LEADER_SHARE = 0.85
"""Of the budget, up to which the one ahead is grown alone where no trunk is there yet."""
FEW_LENGTHS = 2
"""Lengths before the winner's at which other seeds are looked at."""
MORE_LENGTHS, LITTLE = 3, 1.25
"""How often a seed that is not there yet is grown on, and by which factor."""
MORE_ON_ALL_DATA = 10
"""The same of the run on all of the data: how far the answer moves is what that run is for."""
WORTH_TRYING = 1.4
"""A rate nearer than this factor to one that was tried is not tried."""
FARTHEST = 10.0
"""From the winner, as a factor: rates further away say nothing of the bottom."""
ALIKE = 1.1
"""Times the fewest updates: as far as seeds differ."""
BRANCHED_AT = (0.25, 0.6)
"""Of the winner's updates: where batch branches leave, early and late, since the critical batch grows."""


def find_rate(session: Session, question: RateQuestion, started: float) -> None:
    """Grow trunks until one reaches the target, as far as the budget goes; then confirm it on other seeds."""
    growing = Growing(session, question, seed=question.seed, started=started)
    ramp_rates(session, question, NUM_RAMPS)
    growing.look_at_start()
    rates = first_rates(growing.evidence, question)
    for place, length in enumerate(lengths(question)):
        if not place:
            rates = affordable(growing, rates, length)
        elif not growing.affords(growing.ahead(rates, length), SEARCH_SHARE):
            # All that is left goes to the one ahead: an answer without the target is worth less than one without seeds.
            rates = [leader(growing.trunks, 0).learning_rate] if growing.trunks else []
            if not rates or not growing.affords(growing.ahead(rates, length), LEADER_SHARE):
                break
        for rate in rates:
            growing.grow(rate, length)
        trunks = growing.trunks
        if not rates:
            break
        if not trunks:
            rates = lower(rates)
            continue
        rates = survivors(trunks, rates, length)
        if reached(trunks, question) is not None and _holds(growing, question):
            break
        if growing.spent < SEARCH_SHARE:
            rates = widen(trunks, rates, length)
    _refine(growing, question)
    _try_on_all_data(growing, question)  # before other seeds, which may take all that is left
    _confirm(growing, question)
    _try_on_all_data(growing, question)  # where they made another rate win


def ramp_rates(session: Session, question: RateQuestion, num_ramps: int) -> None:
    """Range tests on as many seeds."""
    for more in range(num_ramps):
        session.progress("ramp of the rate", 0.02 + 0.03 * more / num_ramps)
        session.ask(question.ramp(more))


def _refine(growing: Growing, question: RateQuestion) -> None:
    """Try the rate at the bottom of the parabola through what was tried, where that is far from all of it."""
    trunks = growing.trunks
    best = winner(trunks, question, growing.evidence.trunks)
    rate = None if best is None or best.last is None else bottom(trunks, best)
    if best is None or best.last is None or rate is None:
        return
    is_new = abs(math.log(rate / best.learning_rate)) > math.log(WORTH_TRYING)
    if is_new and growing.affords((1 + 2 * COOLDOWN) * best.last.to_step, SEARCH_SHARE):
        for point in best.points[-2:]:
            growing.grow(rate, point.to_step)


def _holds(growing: Growing, question: RateQuestion) -> bool:
    """Whether most seeds are there with the winner: one evaluation may be lucky, and what is lucky is found first.

    Batch branches will leave the first of the other seeds, from places that it must not have passed: it comes last.
    """
    for more in reversed(range(1, question.num_seeds)):
        best = winner(growing.trunks, question, growing.evidence.trunks)
        if best is None or best.last is None or is_held(best, growing.evidence.trunks, question):
            break
        other = Growing(growing.session, question, seed=growing.seed + more, started=growing.started)
        if not other.affords(other.ahead([best.learning_rate], best.last.to_step), SEARCH_SHARE):
            return True  # nothing is left to search on with
        other.grow(best.learning_rate, best.last.to_step)
    best = winner(growing.trunks, question, growing.evidence.trunks)
    return best is not None and is_held(best, growing.evidence.trunks, question)


def is_held(best: Trunk, seen: Sequence[Trunk], question: RateQuestion) -> bool:
    """Whether more than half of the seeds reach the target with the rate of that trunk."""
    seeds = {trunk.seed for trunk in seen if trunk.learning_rate == best.learning_rate and _is_there(trunk, question)}
    return len(seeds) > question.num_seeds / 2


def _is_there(trunk: Trunk, question: RateQuestion) -> bool:
    return trunk.steps_to(question.wanted) is not None


def _try_on_all_data(growing: Growing, question: RateQuestion) -> None:
    """The winner on all of the data, where the search saw a part of it."""
    best = winner(growing.trunks, question, growing.evidence.trunks)
    whole = Growing(growing.session, question.on_all_data(), seed=growing.seed, started=growing.started)
    tried = {trunk.learning_rate for trunk in whole.evidence.trunks}
    if question.fraction < 1 and best is not None and best.learning_rate not in tried:
        _grow_until_there(whole, best, growing, MORE_ON_ALL_DATA)


def _confirm(growing: Growing, question: RateQuestion) -> None:
    """The winner on other seeds, to the length at which it was there; batch branches leave the first of them."""
    best = winner(growing.trunks, question, growing.evidence.trunks)
    if best is None or best.last is None:
        return
    for more in range(1, question.num_seeds):
        other = Growing(growing.session, question, seed=growing.seed + more, started=growing.started)
        if more == 1:
            for share in BRANCHED_AT:
                branch_batches(other, best, round(share * best.last.to_step))
        _grow_until_there(other, best, growing, MORE_LENGTHS)


def _grow_until_there(growing: Growing, best: Trunk, first: Growing, num_more: int) -> None:
    """Another seed, or other data, to where the winner was there; further where it is not yet: that may have been luck.

    It is looked at on the way too, where that costs no more than a cooldown: it may be there sooner. What updates cost
    the first trunks tell, which have been grown.
    """
    assert best.last is not None
    already = max((point.to_step for trunk in growing.trunks for point in trunk.points), default=0)
    sooner = [point.to_step for point in best.points[-1 - FEW_LENGTHS : -1] if point.to_step > already]
    for to_step in [*sooner, *(round(best.last.to_step * LITTLE**more) for more in range(num_more + 1))]:
        if not first.affords(growing.ahead([best.learning_rate], to_step), 1.0):
            return
        grown = growing.grow(best.learning_rate, to_step)
        if grown.diverged or reached(growing.trunks, growing.question) is not None:
            return


def affordable(growing: Growing, rates: list[float], length: int) -> list[float]:
    """The first look, which an answer cannot do without, at all rates, the middle one, or none, as the budget lasts."""
    for some in (rates, rates[1:2]):
        if growing.affords(growing.ahead(some, length), 1.0):
            return some
    return []


def first_rates(evidence: Evidence, question: RateQuestion) -> list[float]:
    """Where trunks begin: below the rate at which ramps blew up; where none did, around the one at which they fall."""
    blown = diverging_rate(evidence.ramps)
    if blown is not None:
        return [blown * share for share in SHARES]
    steepest = middle([rate for ramp in evidence.ramps if (rate := read_ramp(ramp).steepest) is not None])
    rate = float(question.settings["learning_rate"]) if steepest is None else steepest
    return [rate * STEP, rate, rate / STEP]


def lengths(question: RateQuestion) -> list[int]:
    """Updates at which trunks are judged, from the first look to the longest run."""
    first = max(LEAST_STEPS, SETTLED * warmup_steps(question))
    longest = LONGEST_SAME if question.target_from == "measured" else LONGEST
    num = math.ceil(math.log(max(GROWTH, longest * question.own_steps / first), GROWTH))
    return [round(first * GROWTH**place) for place in range(num + 1)]


def lower(rates: Sequence[float]) -> list[float]:
    """Where all trunks diverged: rates below them."""
    return [min(rates) / STEP, min(rates) / STEP**2]


def behind(point: Point, best: Trunk, judge: Judge = "value") -> float:
    """How many times the updates of the best a run took to the same value; 1 where the best did not get there."""
    value = point.judged(judge)
    needed = best.steps_to(value, judge)
    return math.inf if not math.isfinite(value) else point.num_steps / needed if needed else 1.0


def lags(point: Point, best: Trunk) -> float:
    """The same by value or loss, whichever is kinder: a score of a few hundred samples tells two runs apart by luck."""
    return min(behind(point, best), behind(point, best, "loss"))


def leader(trunks: Sequence[Trunk], length: int) -> Trunk:
    """The trunk with the least value among those that were grown as far; of equal ones, that with the least loss."""
    grown = [trunk for trunk in trunks if trunk.last is not None and trunk.last.to_step >= length]
    return min(grown or trunks, key=lambda trunk: (trunk.best, min(point.loss for point in trunk.points)))


def survivors(trunks: Sequence[Trunk], rates: Sequence[float], length: int) -> list[float]:
    """The rates that may still win: the leader, and those not too far behind at this length and the one before."""
    best, found = leader(trunks, length), []
    for trunk in trunks:
        if trunk.learning_rate not in rates or trunk.diverged_at is not None:
            continue
        far = [lags(point, best) for point in trunk.points[-2:]]
        lost = far[-1] > HOPELESS or (len(far) == 2 and min(far) > TOO_FAR)
        if trunk is best or not lost:
            found.append(trunk.learning_rate)
    return found


def widen(trunks: Sequence[Trunk], rates: Sequence[float], length: int) -> list[float]:
    """A neighbour joins where the leader lies at an end of what was tried."""
    tried = sorted(trunk.learning_rate for trunk in trunks)
    best = leader(trunks, length).learning_rate
    more = []
    if best == tried[0]:
        more.append(best / STEP)
    if best == tried[-1] and not any(trunk.diverged_at for trunk in trunks):
        more.append(best * STEP)
    return [*rates, *more]


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
    points = [(math.log(trunk.learning_rate), math.log(behind(trunk.points[-1], best))) for trunk in near]
    points = [point for point in points if math.isfinite(point[1])]
    if len(points) < 3:
        return None
    curve = np.polyfit([x for x, _ in points], [y for _, y in points], 2)
    if curve[0] <= 0:
        return None
    place = float(-curve[1] / (2 * curve[0]))
    low, high = min(points)[0], max(points)[0]
    return math.exp(min(high, max(low, place)))
