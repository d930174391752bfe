"""What a logbook holds of how a job learns: trunks by rate and seed, and the value of a run of each length."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from legroom.logbook import Entry
from legroom.questions.rate.records import BranchBatch, Grown, GrowTrunk, RampRate, RateQuestion, RateRamp

BLOWN_UP = 4.0
"""Times the least loss of a ramp, at which it counts as diverged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A run of one length."""

    to_step: int
    """Updates at the constant rate."""
    num_steps: int
    """Updates of the run, its cooldown included."""
    num_samples: int
    value: float
    """What is judged, so that less is better: the loss, or the score with its sign by the goal."""


@dataclass(slots=True, kw_only=True)
class Trunk:
    """One rate, batch size and seed."""

    learning_rate: float
    batch_size: int
    seed: int
    points: list[Point] = field(default_factory=list)
    diverged_at: int | None = None

    @property
    def last(self) -> Point | None:
        """The longest run so far."""
        return self.points[-1] if self.points else None

    @property
    def best(self) -> float:
        """The least value of all its runs."""
        return min((point.value for point in self.points), default=math.inf)

    def steps_to(self, value: float) -> float | None:
        """Updates of a run that reaches the value, between the lengths that were run; None where none does."""
        before: Point | None = None
        for point in self.points:
            if point.value <= value:
                return _between(before, point, value)
            before = point if before is None or point.value < before.value else before
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A piece of training at another batch size, beside the trunk it left."""

    request: BranchBatch
    result: Grown
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that was seen for the question."""

    ramps: Sequence[RateRamp]
    trunks: Sequence[Trunk]
    branches: Sequence[Branch]
    num_samples: int
    """Samples that were trained on, all together."""
    step_seconds: float
    """Of an update in a trunk, its share of evaluations included: what a search pays."""
    update_seconds: float | None
    """Of an update alone; None where none was timed."""

    def of_seed(self, seed: int) -> list[Trunk]:
        """The trunks of one seed that have been evaluated, by rate."""
        found = [trunk for trunk in self.trunks if trunk.seed == seed and trunk.points]
        return sorted(found, key=lambda trunk: trunk.learning_rate)


def gather(entries: Iterable[Entry], question: RateQuestion) -> Evidence:
    """The evidence among the entries."""
    trunks: dict[tuple[float, int, int], Trunk] = {}
    ramps, branches, paid, seconds, steps = [], [], 0, 0.0, 0
    grown = []
    for entry in entries:
        request, result = entry.request, entry.result
        if isinstance(request, RampRate) and isinstance(result, RateRamp):
            ramps.append(result)
            paid += result.num_samples
        elif isinstance(request, GrowTrunk) and isinstance(result, Grown):
            _add(trunks, request, result, question)
            paid += result.paid_samples
            seconds += result.seconds
            steps += result.paid_samples // int(request.settings["batch_size"])
            grown.append(result)
        elif isinstance(request, BranchBatch) and isinstance(result, Grown):
            branches.append(Branch(request=request, result=result, value=value_of(result, question)))
            paid += result.paid_samples
    return Evidence(
        ramps=ramps,
        trunks=list(trunks.values()),
        branches=branches,
        num_samples=paid,
        step_seconds=seconds / steps if steps else 0.0,
        update_seconds=_update_seconds(grown),
    )


def _update_seconds(grown: Sequence[Grown]) -> float | None:
    steps = sum(each.grown_steps for each in grown)
    return sum(each.grown_seconds for each in grown) / steps if steps else None


def value_of(result: Grown, question: RateQuestion) -> float:
    """What is judged, so that less is better; infinite where it diverged or is no number."""
    found = result.loss if question.target_name == "loss" else result.score
    if result.diverged or found is None or not math.isfinite(found):
        return math.inf
    return question.signed(found)


def _add(
    trunks: dict[tuple[float, int, int], Trunk], request: GrowTrunk, result: Grown, question: RateQuestion
) -> None:
    settings = request.settings
    key = (float(settings["learning_rate"]), int(settings["batch_size"]), int(settings["seed"]))
    trunk = trunks.setdefault(key, Trunk(learning_rate=key[0], batch_size=key[1], seed=key[2]))
    if result.diverged:
        trunk.diverged_at = request.to_step
        return
    point = Point(
        to_step=request.to_step,
        num_steps=result.num_steps,
        num_samples=result.num_samples,
        value=value_of(result, question),
    )
    trunk.points = sorted([*trunk.points, point], key=lambda each: each.num_steps)


def _between(before: Point | None, after: Point, value: float) -> float:
    """The length at which the value is met, on a straight line over ln steps."""
    if before is None or not math.isfinite(before.value) or before.value <= value:
        return float(after.num_steps)
    share = (before.value - value) / (before.value - after.value)
    return float(before.num_steps * (after.num_steps / before.num_steps) ** share)


def diverging_rate(ramps: Sequence[RateRamp]) -> float | None:
    """The rate at which ramps blew up, in the middle of the seeds; None where none did."""
    found = sorted(rate for ramp in ramps if (rate := _blows_up(ramp)) is not None)
    return math.exp(sum(map(math.log, found)) / len(found)) if found else None


def _blows_up(ramp: RateRamp) -> float | None:
    """The first rate at which the smoothed loss is far above its least."""
    smooth, least = 0.0, math.inf
    for place, (rate, loss) in enumerate(zip(ramp.rates, ramp.losses, strict=True)):
        smooth = 0.9 * smooth + 0.1 * loss
        unbiased = smooth / (1 - 0.9 ** (place + 1))
        least = min(least, unbiased)
        if place > 10 and unbiased > BLOWN_UP * max(least, 1e-12):
            return rate
    return ramp.rates[-1] if ramp.diverged else None
