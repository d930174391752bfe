"""The search for a rate: a ramp brackets it, trunks at a few rates grow side by side, and losers end early."""

import math
from collections.abc import Sequence

import numpy as np

from legroom.laws.steps import best_rate, rate_exponent
from legroom.questions.rate.critical import critical_batch
from legroom.questions.rate.evidence import Evidence, Point, Trunk, diverging_rate, gather
from legroom.questions.rate.records import Grown, GrowTrunk, RateQuestion
from legroom.session import Session

NUM_RAMPS = 2
SHARES = (1 / 3, 1 / 10, 1 / 30)
"""Of the diverging rate: where trunks begin. The best rate lies there for nearly every job and optimizer."""
STEP = 3.0
"""Between neighbouring rates, as a factor."""
GROWTH = 1.5
"""Between the lengths at which runs are judged."""
COOLDOWN = 0.2
"""Of the updates before it."""
FIRST_SHARE = 1 / 40
"""Of the job's own updates: the first length."""
LEAST_STEPS = 20
WARMUP_SHARE = 0.02
"""Of the job's own updates: a climb that costs little and saves trunks at high rates."""
TOO_FAR, HOPELESS = 1.25, 2.5
"""A trunk that is behind by so many times the updates twice in a row, or once, cannot win any more."""
LONGEST = 3.0
"""Times the job's own updates: no run is grown further."""
SEARCH_SHARE = 0.6
"""Of the budget, for the first seed; the rest confirms it."""
MORE_LENGTHS, LITTLE = 3, 1.25
"""How often a seed that is not there yet is grown on, and by which factor."""
WORTH_TRYING = 1.4
"""A rate nearer than this factor to one that was tried is not tried."""
BRANCHED_AT = (0.25, 0.6)
"""Of the winner's updates: where batch branches leave, early and late, since the critical batch grows."""
BRANCH_SHARE = 0.5
"""Samples of a batch branch, of those before it."""
NEAR, FAR = 4, 16
"""Batch sizes of branches, as multiples of the trunk's."""
LEAST_BRANCH = 3
"""Updates below which a branch tells nothing."""


class Growing:
    """Trunks of one seed, grown together."""

    def __init__(self, session: Session, question: RateQuestion, *, seed: int, started: float) -> None:
        self.session, self.question, self.seed, self.started = session, question, seed, started

    @property
    def evidence(self) -> Evidence:
        """What is known by now."""
        return gather(self.session.records.entries, self.question)

    def grow(self, rate: float, to_step: int) -> Grown:
        """One trunk, to one length."""
        self.tell(f"rate {rate:.3g}, {to_step:,} updates")
        return self.session.ask(self.request(rate, to_step))

    def request(self, rate: float, to_step: int) -> GrowTrunk:
        """The request for that."""
        warmup = warmup_steps(self.question)
        return self.question.trunk(rate, to_step, seed=self.seed, warmup_steps=warmup, cooldown=COOLDOWN)

    def cannot_afford(self, num_steps: int, share: float) -> bool:
        """Whether so many updates, half of them grown before, would take more than that share of the budget."""
        ahead = num_steps / 2 * self.evidence.step_seconds / self.question.budget_seconds
        return self.spent + ahead > share

    @property
    def spent(self) -> float:
        """Share of the budget that is gone."""
        return (self.session.clock() - self.started) / self.question.budget_seconds

    def tell(self, what: str) -> None:
        """Say what is done now."""
        self.session.progress(what, min(0.99, self.spent))


def find_rate(session: Session, question: RateQuestion, started: float) -> None:
    """Grow trunks until one reaches the target, as far as the budget goes; then confirm it on other seeds."""
    for more in range(NUM_RAMPS):
        session.progress("ramp of the rate", 0.02 + 0.03 * more)
        session.ask(question.ramp(more))
    growing = Growing(session, question, seed=int(question.settings["seed"]), started=started)
    rates = first_rates(growing.evidence, question)
    for length in lengths(question):
        if growing.cannot_afford(length * len(rates), SEARCH_SHARE):
            break
        for rate in rates:
            growing.grow(rate, length)
        trunks = growing.evidence.of_seed(growing.seed)
        if not trunks:
            rates = lower(rates)
            continue
        rates = survivors(trunks, rates, length)
        if reached(trunks, question) is not None or growing.spent > SEARCH_SHARE:
            break
        rates = widen(trunks, rates, length)
    _refine(growing, question)
    _confirm(growing, question)


def _refine(growing: Growing, question: RateQuestion) -> None:
    """Try the rate at the bottom of the parabola through what was tried, where that is far from all of it."""
    trunks = growing.evidence.of_seed(growing.seed)
    best = winner(trunks, question)
    if best is None or best.last is None or growing.spent > SEARCH_SHARE:
        return
    rate = bottom(trunks, best)
    if rate is not None and abs(math.log(rate / best.learning_rate)) > math.log(WORTH_TRYING):
        for point in best.points[-2:]:
            growing.grow(rate, point.to_step)


def _confirm(growing: Growing, question: RateQuestion) -> None:
    """The winner on other seeds, to the length at which it was there; batch branches leave the first of them."""
    best = winner(growing.evidence.of_seed(growing.seed), question)
    if best is None or best.last is None:
        return
    for more in range(1, question.num_seeds):
        other = Growing(growing.session, question, seed=growing.seed + more, started=growing.started)
        if more == 1:
            for share in BRANCHED_AT:
                branch_batches(other, best, round(share * best.last.to_step))
        _grow_until_there(other, best, question)


def _grow_until_there(growing: Growing, best: Trunk, question: RateQuestion) -> None:
    """Another seed to where the winner was there; further where it is not yet: the first seed may have been lucky."""
    assert best.last is not None
    for more in range(MORE_LENGTHS + 1):
        to_step = round(best.last.to_step * LITTLE**more)
        if growing.cannot_afford(to_step, 1.0):
            return
        growing.grow(best.learning_rate, to_step)
        if reached(growing.evidence.of_seed(growing.seed), question) is not None:
            return


def branch_batches(growing: Growing, best: Trunk, to_step: int) -> None:
    """From one place of the trunk, go on over as many samples with several batch sizes.

    The first of them is tried by both usual rules for the rate; what they tell of the critical batch size says how far
    the rate moves to the next.
    """
    if to_step < LEAST_STEPS / 2 or growing.spent > 0.9:
        return
    growing.grow(best.learning_rate, to_step)
    own, rate = best.batch_size, best.learning_rate
    _branch(growing, best, to_step, 1, rate)
    for power in (0.5, 1.0):
        _branch(growing, best, to_step, NEAR, rate * NEAR**power)
    critical, _ = critical_batch(growing.evidence, best)
    if critical is not None:
        # Beyond the critical batch larger ones hardly differ, and smaller ones tell.
        factor = FAR if critical > own else 1 / NEAR
        exponent = rate_exponent(growing.question.optimizer)
        _branch(growing, best, to_step, factor, best_rate(rate, own, factor * own, critical, exponent))


def _branch(growing: Growing, best: Trunk, to_step: int, factor: float, rate: float) -> None:
    question, size = growing.question, max(1, round(best.batch_size * factor))
    num_steps = round(BRANCH_SHARE * to_step * best.batch_size / size)
    if num_steps < LEAST_BRANCH:
        return
    growing.tell(f"a branch of batches of {size:,}")
    trunk = growing.request(best.learning_rate, to_step)
    growing.session.ask(question.branch(trunk, size, rate, num_steps))


def warmup_steps(question: RateQuestion) -> int:
    """Updates over which every trunk climbs to its rate."""
    return max(int(question.settings["warmup_steps"]), round(WARMUP_SHARE * question.own_steps))


def first_rates(evidence: Evidence, question: RateQuestion) -> list[float]:
    """Where trunks begin: below the rate at which ramps blew up, or around the job's own where none did."""
    own, blown = float(question.settings["learning_rate"]), diverging_rate(evidence.ramps)
    if blown is None:
        return [own * STEP, own, own / STEP]
    return [blown * share for share in SHARES]


def lengths(question: RateQuestion) -> list[int]:
    """Updates at which trunks are judged, from the first look to the longest run."""
    first = max(LEAST_STEPS, FIRST_SHARE * question.own_steps)
    num = math.ceil(math.log(max(GROWTH, LONGEST * question.own_steps / first), GROWTH))
    return [round(first * GROWTH**place) for place in range(num + 1)]


def lower(rates: Sequence[float]) -> list[float]:
    """Where all trunks diverged: rates below them."""
    return [min(rates) / STEP, min(rates) / STEP**2]


def behind(point: Point, best: Trunk) -> float:
    """How many times the updates of the best a run took to the same value; 1 where the best did not get there."""
    needed = best.steps_to(point.value)
    return math.inf if not math.isfinite(point.value) else point.num_steps / needed if needed else 1.0


def leader(trunks: Sequence[Trunk], length: int) -> Trunk:
    """The trunk with the least value among those that were grown as far."""
    grown = [trunk for trunk in trunks if trunk.last is not None and trunk.last.to_step >= length]
    return min(grown or trunks, key=lambda trunk: trunk.best)


def survivors(trunks: Sequence[Trunk], rates: Sequence[float], length: int) -> list[float]:
    """The rates that may still win: the leader, and those not too far behind at this length and the one before."""
    best, found = leader(trunks, length), []
    for trunk in trunks:
        if trunk.learning_rate not in rates or trunk.diverged_at is not None:
            continue
        far = [behind(point, best) for point in trunk.points[-2:]]
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


def winner(trunks: Sequence[Trunk], question: RateQuestion) -> Trunk | None:
    """The trunk that reaches the target in the fewest updates; the one with the least value where none does."""
    if not trunks:
        return None
    there = [(steps, place) for place, trunk in enumerate(trunks) if (steps := trunk.steps_to(question.wanted))]
    return trunks[min(there)[1]] if there else leader(trunks, 0)


def bottom(trunks: Sequence[Trunk], best: Trunk) -> float | None:
    """The rate at which the parabola through the winner and its neighbours is lowest, in ln updates over ln rate."""
    near = [trunk for trunk in trunks if abs(math.log(trunk.learning_rate / best.learning_rate)) < math.log(STEP**1.5)]
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
