"""The ways to run, and what is known of each: how many updates it needs, and what one of them takes."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from legroom.laws.steps import best_rate, rate_exponent
from legroom.laws.time_to_target import joined_spread, seconds_to_target, steps_to_target
from legroom.questions.plan.evidence import middle_run
from legroom.questions.plan.factors import Pace, joined
from legroom.questions.plan.groups import group_of
from legroom.questions.plan.records import PlanQuestion
from legroom.questions.rate.answer import RateAnswer

LEAST_SPREAD = 1.1
"""Of the updates to a target, as a factor: evaluations are so far apart."""
FEWEST_UPDATES = 10
"""Of an epoch: with fewer hardly anything is learned in it."""
SAFETY = 1.1
"""Times the updates of the slowest seed, for a plan's length."""
MISSED = 1.5
"""Times the updates, where a seed never reached the target, or no rate did at that batch: as far as `rate` grows it."""
BEYOND = 4.0
"""By which factor a critical batch size may be off of which only an edge is known."""
SMALLER, LARGER = 4, 16
"""How far from a batch where the rate was measured another is chosen: as far as the branches of `rate` go."""


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
    failed: frozenset[int] = frozenset()
    """Batch sizes at which a rate was sought and none reached the target."""

    @classmethod
    def of(cls, question: PlanQuestion) -> "Learned":
        """What the question's answers hold that reached the target; what a run had when it hardly was is none."""
        found = {one.batch_size: one for one in question.rates if one.reached and one.target["from"] != "begun"}
        return cls(rates=found, failed=frozenset({one.batch_size for one in question.rates} - {*found}))

    @property
    def critical(self) -> float | None:
        """The critical batch size that the first answer with one has; else the edge beyond which it lies."""
        known = [one.critical_batch_size for one in self.rates.values()]
        return next(filter(None, [*known, *(one.critical_edge for one in self.rates.values())]), None)

    @property
    def critical_range(self) -> tuple[float, float]:
        """Between which it lies; all there is where nobody knows."""
        found = next((one.critical_range for one in self.rates.values() if one.critical_batch_size), None)
        if found is None and self.critical is not None:
            return self.critical / BEYOND, self.critical * BEYOND
        return found or (0.0, math.inf)

    def near(self, size: int) -> RateAnswer:
        """The answer at the nearest batch."""
        return self.rates[min(self.rates, key=lambda known: abs(math.log(known / size)))]

    def steps(self, size: int) -> float | None:
        """Updates to the target at that many samples of an update; None where nothing tells."""
        near = self.near(size)
        if size == near.batch_size:
            return slowest_steps(near)
        late = MISSED if size in self.failed else 1.0
        return None if self.critical is None else late * slowest_steps(near) * self._ratio(size, self.critical)

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
    rate_share: float = 1.0
    """Of the rate that was found there: a lower one may need more updates, and the same number with every seed."""
    length_share: float = 1.0
    """Of the updates that were promised first: less where every run that was tried out has reached the target."""
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
