"""Which batch, passes and number of devices reach the target soonest, cheapest or with the least energy."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from legroom.laws.steps import best_rate, rate_exponent
from legroom.laws.time_to_target import energy_joules, joined_spread, money, seconds_to_target, steps_to_target
from legroom.questions.plan.evidence import middle_run
from legroom.questions.plan.factors import Pace, joined, pace_of
from legroom.questions.plan.groups import group_of, numbers_of
from legroom.questions.plan.records import PlanQuestion
from legroom.questions.rate.answer import RateAnswer
from legroom.questions.speed.answer import SpeedAnswer

WORTH = 0.9
"""Of the cost at a batch where the rate was measured: another one must cost less to be worth its doubt."""
LEAST_SPREAD = 1.1
"""Of the updates to a target, as a factor: evaluations are so far apart."""
FEWEST_UPDATES = 10
"""Of an epoch: with fewer hardly anything is learned in it."""
SAFETY = 1.1
"""Times the updates of the slowest seed, for a plan's length."""
MISSED = 1.5
"""Times the middle seed's updates, where one never reached the target: as far as `rate` grows it."""
SMALLER, LARGER = 4, 16
"""How far from a batch where the rate was measured another is chosen: as far as the branches of `rate` go."""
GUESSED = 4.0
"""Times the job's own batch: a first guess of the critical batch size, before any was measured."""


def slowest_steps(answer: RateAnswer) -> float:
    """Updates in which every seed that `rate` tried was there, and some more: fresh ones should be there as well.

    A run as long as the middle one misses each second time, and one that missed is worth nothing. A seed that never was
    there counts as late by a factor.
    """
    most = answer.steps_range[1]
    return SAFETY * float(MISSED * answer.num_steps if most is None else max(most, answer.num_steps))


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """How many updates a target needs, by what `rate` measured at one batch or more."""

    rates: Mapping[int, RateAnswer]
    """By batch size; the first was asked first."""

    @classmethod
    def of(cls, question: PlanQuestion) -> "Learned":
        """What the question's answers hold that reached the target; what a run had when it hardly was is none."""
        found = [one for one in question.rates if one.reached and one.target["from"] != "begun"]
        return cls(rates={one.batch_size: one for one in found})

    @property
    def critical(self) -> float | None:
        """The critical batch size that the first answer with one has."""
        return next((one.critical_batch_size for one in self.rates.values() if one.critical_batch_size), None)

    @property
    def critical_range(self) -> tuple[float, float]:
        """Between which it lies; all there is where nobody knows."""
        found = next((one.critical_range for one in self.rates.values() if one.critical_batch_size), None)
        return found or (0.0, math.inf)

    def near(self, size: int) -> RateAnswer:
        """The answer at the nearest batch."""
        return self.rates[min(self.rates, key=lambda known: abs(math.log(known / size)))]

    def steps(self, size: int) -> float | None:
        """Updates to the target at that many samples of an update; None where nothing tells."""
        near = self.near(size)
        if size == near.batch_size:
            return slowest_steps(near)
        return None if self.critical is None else slowest_steps(near) * self._ratio(size, self.critical)

    def _ratio(self, size: int, critical: float) -> float:
        return steps_to_target(size, 1, critical) / steps_to_target(self.near(size).batch_size, 1, critical)

    def rate(self, size: int) -> float:
        """The rate for that many samples of an update."""
        near = self.near(size)
        if size == near.batch_size or self.critical is None:
            return near.learning_rate
        exponent = rate_exponent("adam" if near.rule == "sqrt" else "sgd")
        return best_rate(near.learning_rate, near.batch_size, size, self.critical, exponent)

    def spread(self, size: int) -> float:
        """By which factor the updates may be off: over seeds, and where another batch was measured by B_crit too."""
        near = self.near(size)
        seeds = max(LEAST_SPREAD, math.sqrt(slowest_steps(near) / (near.steps_range[0] or near.num_steps)))
        if size == near.batch_size or self.critical is None:
            return seeds
        ratios = [self._ratio(size, critical) for critical in self.critical_range]
        return joined_spread(seeds, max(1.0, math.sqrt(max(ratios) / min(ratios))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One way to run."""

    batch_size: int
    """Of a pass on one device."""
    num_steps: float
    step_seconds: float
    num_evaluations: float
    evaluation: float
    num_passes: int = 1
    num_devices: int = 1
    on_one_machine: bool = False
    """Whether devices are processes that share one machine, whose hour is paid for once."""
    energy_factor: float = 1.0
    """Times the energy that a sample takes at this batch on one device alone."""

    @property
    def size(self) -> int:
        """Samples of an update."""
        return self.batch_size * self.num_passes * self.num_devices

    @property
    def num_paid(self) -> int:
        """Devices whose hours are paid for."""
        return 1 if self.on_one_machine else self.num_devices

    @property
    def seconds(self) -> float:
        """To the target."""
        return seconds_to_target(self.num_steps, self.step_seconds, self.num_evaluations, self.evaluation)


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


def choose(question: PlanQuestion, most: int | None = None) -> Candidate | None:
    """The way to run that costs least by what is known; None where no rate reached the target, or nothing was timed."""
    pace, learned = pace_of(question), Learned.of(question)
    if pace is None or not learned.rates:
        return None
    found = [
        one
        for num in numbers_of(question)
        for size in sizes_of(question, learned, most, num)
        if (one := candidate(question, pace, learned, size, num))
    ]
    return cheapest(found, question_cost(question), list(learned.rates)) if found else None


def question_cost(question: PlanQuestion) -> Cost:
    """What is to be least by the question's goal."""
    effort = effort_of(question.speed, question.num_cores) if question.speed else None
    return cost_of(question.goal, question.price_per_hour, effort)


def sizes_of(question: PlanQuestion, learned: Learned, most: int | None, num_devices: int = 1) -> list[int]:
    """Updates that may be made: those measured, and powers of two that the data and the timings allow."""
    if question.batch_size is not None:
        return [num_devices * question.batch_size]
    assert question.speed is not None
    timed = [num_devices * int(point["batch_size"]) for point in question.speed.points]
    powers = [1 << power for power in range(max(timed).bit_length()) if min(timed) <= 1 << power <= max(timed)]
    learns = max(question.own_size, question.num_samples // FEWEST_UPDATES) if question.num_samples else max(timed)
    limit = min(learns, num_devices * most if most else learns)
    least, largest = min(learned.rates) / SMALLER, min(limit, LARGER * max(learned.rates))
    return sorted(
        {size for size in {*powers, *timed, question.own_size} if least <= size <= largest} | {*learned.rates}
    )


def candidate(
    question: PlanQuestion, pace: Pace, learned: Learned, size: int, num_devices: int = 1
) -> Candidate | None:
    """An update of that many samples, in one pass on each device where that was timed; None where nothing tells how
    many it needs, or what so many devices take."""
    num_steps, share = learned.steps(size), size // num_devices
    if num_steps is None or size % num_devices:
        return None
    num_passes = math.ceil(share / max(pace.sizes))
    batch, run = math.ceil(share / num_passes), middle_run(question.runs)
    num_workers = workers_at(question, batch)
    at, _ = joined(question, pace, batch, num_workers)
    alone = step = at.step(batch, num_workers, num_passes)
    if num_devices > 1:
        group = group_of(question, num_devices)
        if group is None or not group.covers(batch):
            return None
        each = at.on(num_devices, group.slowdown(batch))
        step = each.step(batch, num_workers, num_passes, group.waits(batch))
    # A GPU that waits draws its power too; of a CPU each process has one core, and one alone had them all.
    cores = 1 / question.num_cores if on_one_machine(question) else 1.0
    return Candidate(
        num_devices=num_devices,
        on_one_machine=on_one_machine(question),
        energy_factor=cores * step / alone if num_devices > 1 else 1.0,
        batch_size=batch,
        num_passes=num_passes,
        num_steps=num_steps,
        step_seconds=step,
        num_evaluations=evaluations_of(question, num_steps, size),
        evaluation=run.evaluation_seconds if run else 0.0,
    )


def on_one_machine(question: PlanQuestion) -> bool:
    """Whether the devices in question are processes that share one machine."""
    return question.devices is not None and question.devices.device == "cpu"


def workers_at(question: PlanQuestion, size: int) -> int:
    """Those that `loading` found, at this batch or another; else the job's own."""
    found = next((one for one in question.loading if one.batch_size == size), None)
    found = found or next(iter(question.loading), None)
    return found.num_workers if found else int(question.baseline["num_workers"])


def evaluations_of(question: PlanQuestion, num_steps: float, size: int) -> int:
    """Passes over the validation data, as often as `legroom prove` makes them."""
    samples = question.looks_samples or question.num_samples
    return max(1, math.ceil(num_steps * size / samples)) if samples else 1
