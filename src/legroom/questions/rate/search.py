"""The search for a rate: a ramp brackets it, trunks at a few rates grow side by side, and losers end early."""

import math
from collections.abc import Sequence

from legroom.questions.rate.evidence import Evidence, Trunk
from legroom.questions.rate.growing import COOLDOWN, LEAST_STEPS, Growing, branch_batches, warmup_steps
from legroom.questions.rate.ramps import FIRST, blows_up, diverging_rate, middle, read_ramp
from legroom.questions.rate.ranking import bottom, is_given_up, is_harmed, is_held, leader, reached, survivors, winner
from legroom.questions.rate.records import RateQuestion
from legroom.session import Session

OF_BLOWN, OF_LOWEST = 1 / 10, 1 / 5
"""Of the rate at which ramps blow up, and of that at which their loss is least: where the best one should lie. With
optimizers that divide by the gradient's size they blow up late, with others the loss is least just before."""
STEP, NUM_RATES = 3.0, 3
"""Between neighbouring rates, as a factor, and how many of them trunks begin at."""
GROWTH = 1.5
"""Between the lengths at which runs are judged."""
SETTLED = 2.5
"""Times the warm-up: before, runs at high rates are ahead because they have passed the good ones."""
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
MOST_TURNS = 2
"""How often another rate may win by what other seeds show, and be confirmed itself."""
MORE_ON_ALL_DATA = 10
"""The same of the run on all of the data: how far the answer moves is what that run is for."""
LONG_AGO = 3.0
"""Times the updates after which a lower rate was left, for looking at it again: the longer a run, the lower its best
rate."""
WORTH_TRYING = 1.4
"""A rate nearer than this factor to one that was tried is not tried."""
BRANCHED_AT = (0.2, 0.45)
"""Of the winner's updates: where batch branches leave, early and late, since the critical batch grows."""


def find_rate(session: Session, question: RateQuestion, started: float) -> None:
    """Grow trunks until one reaches the target, as far as the budget goes; then confirm it on other seeds."""
    growing = Growing(session, question, seed=question.seed, started=started)
    _bracket(session, question)
    growing.look_at_start()
    rates = first_rates(growing.evidence, question)
    for place, length in enumerate(lengths(question)):
        if not place:
            rates = affordable(growing, rates, length)
        elif not growing.affords(growing.ahead(rates, length), SEARCH_SHARE):
            # All that is left goes to the one ahead: an answer without the target is worth less than one without seeds.
            rates, length, share = _alone(growing, length)
            if not rates or not growing.affords(growing.ahead(rates, length), share):
                break
            again = revive(growing.trunks, rates, length)
            rates = again if growing.affords(growing.ahead(again, length), share) else rates
        for rate in rates:
            # What the trunk before took tells of this one; without any there is no answer.
            if not growing.trunks or growing.affords(growing.ahead([rate], length), 1.0):
                growing.grow(rate, length)
        trunks = growing.trunks
        if not rates:
            break
        if not trunks:
            rates = lower(rates)
            continue
        rates = survivors(trunks, rates, length)
        if _holds(growing, question, rates):
            break
        if growing.spent < SEARCH_SHARE:
            rates = revive(trunks, rates, length)
            rates = widen(trunks, rates, length, diverging_rate(growing.evidence.ramps))
    _refine(growing, question)
    _try_on_all_data(growing, question)  # before other seeds, which may take all that is left
    _confirm_winner(growing, question)
    _try_on_all_data(growing, question)  # where they made another rate win


def _alone(growing: Growing, length: int) -> tuple[list[float], int, float]:
    """The rate that all that is left goes to, to which length, and up to which share of the budget: the one ahead.

    A lower one, from its first look on, while that is worse than no update: with it there is no answer.
    """
    best = leader(growing.trunks, 0) if growing.trunks else None
    if best is None or not is_harmed(best):
        return [] if best is None else [best.learning_rate], length, LEADER_SHARE
    tried = [trunk.learning_rate for trunk in growing.trunks]
    return lower(tried)[:1], lengths(growing.question)[0], 1.0


def _bracket(session: Session, question: RateQuestion) -> None:
    """The end of a range test, which tells where it blows up; a whole one where it does so at once.

    Where it does not, it has to do where the loss falls fastest: a noisy thing, which two seeds tell.
    """
    session.progress("ramp of the rate", 0.02)
    ramp = session.ask(question.upper_ramp(0))
    if blows_up(ramp) is None:
        session.ask(question.upper_ramp(1))
    elif len(ramp.rates) <= FIRST:
        session.ask(question.ramp(0))


def _refine(growing: Growing, question: RateQuestion) -> None:
    """Try the rate at the bottom of the parabola through what was tried, where that is far from all of it.

    Not beyond a neighbour of the winner: that has lost to it already.
    """
    trunks = growing.trunks
    best = winner(trunks, question, growing.evidence.trunks)
    rate = None if best is None or best.last is None else bottom(trunks, best)
    if best is None or best.last is None or rate is None:
        return
    far = [abs(math.log(rate / trunk.learning_rate)) for trunk in trunks]
    is_new = min(far) > math.log(WORTH_TRYING) and abs(math.log(rate / best.learning_rate)) < math.log(STEP)
    if is_new and growing.affords((1 + 2 * COOLDOWN) * best.last.to_step, SEARCH_SHARE):
        for point in best.points[-2:]:
            growing.grow(rate, point.to_step)


def _holds(growing: Growing, question: RateQuestion, rates: Sequence[float]) -> bool:
    """Whether most seeds are there with one of the rates: one evaluation may be lucky, and luck is found first.

    Batch branches will leave the first of the other seeds, from places that it must not have passed: it comes last.
    """
    for more in reversed(range(1, question.num_seeds)):
        best = _ahead(growing, question, rates)
        if best is None or best.last is None or _is_settled(best, growing, question):
            break
        other = Growing(growing.session, question, seed=growing.seed + more, started=growing.started)
        if not other.affords(other.ahead([best.learning_rate], best.last.to_step), SEARCH_SHARE):
            return True  # nothing is left to search on with
        other.grow(best.learning_rate, best.last.to_step)
    best = _ahead(growing, question, rates)
    return best is not None and is_held(best, growing.evidence.trunks, question)


def _is_settled(best: Trunk, growing: Growing, question: RateQuestion) -> bool:
    """Whether most seeds reach the target with its rate, or most never will."""
    seen = growing.evidence.trunks
    return is_held(best, seen, question) or is_given_up(best, seen, question)


def _ahead(growing: Growing, question: RateQuestion, rates: Sequence[float]) -> Trunk | None:
    """The winner among rates that are grown on, once one is there; others stay where they were seen last."""
    trunks = [trunk for trunk in growing.trunks if trunk.learning_rate in rates]
    return winner(trunks, question, growing.evidence.trunks) if reached(trunks, question) is not None else None


def _try_on_all_data(growing: Growing, question: RateQuestion) -> None:
    """The winner on all of the data, where the search saw a part of it."""
    best = winner(growing.trunks, question, growing.evidence.trunks)
    whole = Growing(growing.session, question.on_all_data(), seed=growing.seed, started=growing.started)
    tried = {trunk.learning_rate for trunk in whole.evidence.trunks}
    if question.fraction < 1 and best is not None and best.learning_rate not in tried:
        _grow_until_there(whole, best, growing, MORE_ON_ALL_DATA)


def _confirm_winner(growing: Growing, question: RateQuestion) -> None:
    """The winner on other seeds; and again where these make another rate win, which one seed has shown so far."""
    before: Trunk | None = None
    for turn in range(1 + MOST_TURNS):
        best = winner(growing.trunks, question, growing.evidence.trunks)
        if best is None or is_harmed(best) or (before is not None and best.learning_rate == before.learning_rate):
            return
        _confirm(growing, question, best, has_branches=not turn)
        before = best


def _confirm(growing: Growing, question: RateQuestion, best: Trunk, *, has_branches: bool) -> None:
    """A rate on other seeds, to the length at which it was there; batch branches leave the first of them."""
    if best.last is None:
        return
    for more in range(1, question.num_seeds):
        other = Growing(growing.session, question, seed=growing.seed + more, started=growing.started)
        if more == 1 and has_branches:
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
    """Where trunks begin: around the rate that ramps point to; around the job's own where they point to none.

    Where the loss falls fastest at a lower rate, half-way down to that: past it the loss may only have levelled off.
    """
    readings = [read_ramp(ramp) for ramp in evidence.ramps]
    turned = [each.lowest for each, ramp in zip(readings, evidence.ramps, strict=True) if each.lowest != ramp.rates[-1]]
    steepest = middle([each.steepest for each in readings if each.steepest is not None])
    points = (OF_BLOWN, diverging_rate(evidence.ramps)), (OF_LOWEST, middle([rate for rate in turned if rate]))
    told = [share * rate for share, rate in points if rate is not None]
    rate = min(told, default=steepest or float(question.settings["learning_rate"]))
    if steepest is not None and steepest < rate:
        rate = math.sqrt(steepest * rate)
    return [rate * STEP ** (1 - place) for place in range(NUM_RATES)]


def lengths(question: RateQuestion) -> list[int]:
    """Updates at which trunks are judged, from the first look to the longest run."""
    first = max(LEAST_STEPS, SETTLED * warmup_steps(question))
    longest = LONGEST_SAME if question.target_from == "measured" else LONGEST
    num = math.ceil(math.log(max(GROWTH, longest * question.own_steps / first), GROWTH))
    return [round(first * GROWTH**place) for place in range(num + 1)]


def lower(rates: Sequence[float]) -> list[float]:
    """Where all trunks diverged: rates below them."""
    return [min(rates) / STEP, min(rates) / STEP**2]


def revive(trunks: Sequence[Trunk], rates: Sequence[float], length: int) -> list[float]:
    """The neighbour below the leader joins again where it was left long ago: high rates are ahead at first, and only
    then."""
    best = leader(trunks, length).learning_rate
    below = [trunk for trunk in trunks if trunk.learning_rate < best and trunk.last is not None]
    near = max(below, key=lambda trunk: trunk.learning_rate, default=None)
    if near is None or near.last is None or near.learning_rate in rates or length < LONG_AGO * near.last.to_step:
        return list(rates)
    return [*rates, near.learning_rate]


def widen(trunks: Sequence[Trunk], rates: Sequence[float], length: int, blown: float | None = None) -> list[float]:
    """A neighbour joins where the leader lies at an end of what was tried: above, clearly below where ramps blew up."""
    tried = sorted(trunk.learning_rate for trunk in trunks)
    best = leader(trunks, length).learning_rate
    higher = STEP * best if blown is None else min(STEP * best, blown / math.sqrt(STEP))
    more = []
    if best == tried[0]:
        more.append(best / STEP)
    if best == tried[-1] and higher > WORTH_TRYING * best and not any(trunk.diverged_at for trunk in trunks):
        more.append(higher)
    return [*rates, *more]
