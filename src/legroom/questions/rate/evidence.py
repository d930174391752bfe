"""What a logbook holds of how a job learns: trunks by rate and seed, and the value of a run of each length."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from legroom.logbook import Entry
from legroom.questions.rate.noise_scale import GradientSquares
from legroom.questions.rate.records import (
    BranchBatch,
    Grown,
    GrowTrunk,
    RampRate,
    RateQuestion,
    RateRamp,
    update_size,
)

Judge = Literal["value", "loss"]
RISEN = 1.1
"""Times the least loss of a run before: from there on it is sure of what it gets wrong, and its score says more."""
LATEST = 3
"""Growths that tell the pace of the next where they were slower than all: other programs may have begun."""


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
    loss: float = math.inf
    """On the validation data."""
    score: float | None = None

    def judged(self, judge: Judge) -> float:
        """What the target is about, or the loss."""
        return self.loss if judge == "loss" else self.value


@dataclass(slots=True, kw_only=True)
class Trunk:
    """One rate, batch size and seed."""

    learning_rate: float
    batch_size: int
    """Samples of an update."""
    seed: int
    points: list[Point] = field(default_factory=list)
    start: Point | None = None
    """The model before any update; None where it was not looked at."""
    diverged_at: int | None = None
    squares: list[GradientSquares] = field(default_factory=list)
    """Of the gradients of some updates, by growth."""

    @property
    def last(self) -> Point | None:
        """The longest run so far."""
        return self.points[-1] if self.points else None

    @property
    def best(self) -> float:
        """The least value of all its runs."""
        return self.least("value")

    def least(self, judge: Judge) -> float:
        """The least value or loss of all its runs."""
        return min((point.judged(judge) for point in self.points), default=math.inf)

    def steps_to(self, value: float, judge: Judge = "value") -> float | None:
        """Updates of a run that reaches the value, between the lengths that were run; None where none does."""
        before: tuple[int, float] | None = None
        for point in self.points:
            seen = (point.num_steps, point.judged(judge))
            if seen[1] <= value:
                return _between(before, seen, value)
            before = seen if before is None or seen[1] < before[1] else before
        return None

    def steps_from_start(self, value: float, judge: Judge = "value") -> float | None:
        """The same, to compare trunks by: on a straight line from the model before any update to the first look.

        0 for what that model has, of a trunk that has become better; None where none does, or nobody knows.
        """
        begun = math.nan if self.start is None else self.start.judged(judge)
        if begun <= value:
            return 0.0 if self.least(judge) < begun else None
        if not self.points or self.points[0].judged(judge) > value:
            return self.steps_to(value, judge)
        first = self.points[0]
        share = (begun - value) / (begun - first.judged(judge))
        return None if math.isnan(share) else share * first.num_steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A piece of training at another batch size, beside the trunk it left."""

    request: BranchBatch
    result: Grown
    value: float

    @property
    def size(self) -> int:
        """Samples of its updates."""
        return self.request.update_size

    @property
    def loss(self) -> float:
        """On the validation data; infinite where it diverged."""
        return math.inf if self.result.diverged or self.result.loss is None else self.result.loss


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that was seen for the question."""

    ramps: Sequence[RateRamp]
    trunks: Sequence[Trunk]
    branches: Sequence[Branch]
    failed: Sequence[tuple[BranchBatch, str]]
    """Branches that could not be trained, and why."""
    start: Grown | None
    """The model before any update."""
    num_samples: int
    """Samples that were trained on, all together."""
    step_seconds: float
    """Of an update in a trunk, its share of evaluations included: what a search pays, of late or on the whole."""
    update_seconds: float | None
    """Of an update alone; None where none was timed."""

    def of_seed(self, seed: int) -> list[Trunk]:
        """The trunks of one seed that have been evaluated, by rate."""
        found = [trunk for trunk in self.trunks if trunk.seed == seed and trunk.points]
        return sorted(found, key=lambda trunk: trunk.learning_rate)


def gather(entries: Iterable[Entry], question: RateQuestion) -> Evidence:
    """The evidence among the entries; what was asked of other batch sizes or precisions is none."""
    trunks: dict[tuple[float, int], Trunk] = {}
    ramps, branches, failed, grown, start, paid = [], [], [], [], None, 0
    for entry in entries:
        request, result = entry.request, entry.result
        if not isinstance(request, RampRate | GrowTrunk | BranchBatch) or not question.covers(request):
            continue
        if isinstance(result, RateRamp):
            ramps.append(result)
            paid += result.num_samples
        elif isinstance(request, GrowTrunk):
            start = result if request.to_step == 0 else start
            add_trunk(trunks, request, result, question)
            paid += result.paid_samples
            grown.append(result)
        elif isinstance(request, BranchBatch) and result.failure is not None:
            failed.append((request, result.failure))
        elif isinstance(request, BranchBatch):
            branches.append(Branch(request=request, result=result, value=value_of(result, question)))
            paid += result.paid_samples
    for trunk in trunks.values():
        trunk.start = None if start is None else point_of(start, 0, question)
    known = grown[1:] or grown  # the first of a process waits for imports
    latest = [result for result in known if result.paid_samples][-LATEST:]
    return Evidence(
        ramps=ramps,
        trunks=[trunk for trunk in trunks.values() if trunk.points or trunk.diverged_at],
        branches=branches,
        failed=failed,
        start=start,
        num_samples=paid,
        step_seconds=max(_paid_seconds(each, question.update_size) for each in (known, latest)) or ramp_seconds(ramps),
        update_seconds=_update_seconds(grown),
    )


def _paid_seconds(grown: Sequence[Grown], size: int) -> float:
    """Of an update, all that answering took shared among those that were trained; 0 of none."""
    steps = sum(each.paid_samples / size for each in grown)
    return sum(each.seconds for each in grown) / steps if steps else 0.0


def ramp_seconds(ramps: Sequence[RateRamp]) -> float:
    """Of an update, by the fastest of the ramps; 0 of none."""
    return min((ramp.seconds / max(1, len(ramp.rates)) for ramp in ramps), default=0.0)


def _update_seconds(grown: Sequence[Grown]) -> float | None:
    steps = sum(each.grown_steps for each in grown)
    return sum(each.grown_seconds for each in grown) / steps if steps else None


def value_of(result: Grown, question: RateQuestion) -> float:
    """What is judged, so that less is better; infinite where it diverged or is no number."""
    found = result.loss if question.target_name == "loss" else result.score
    if result.diverged or found is None or not math.isfinite(found):
        return math.inf
    return question.signed(found)


def steps_by_seed(trunks: Iterable[Trunk], best: Trunk, wanted: float, judge: Judge = "value") -> list[float]:
    """Updates to the target on each seed, infinite where missed or diverged; one not grown so far says nothing."""
    far, found = best.steps_to(wanted, judge) or 0.0, {}
    for trunk in trunks:
        if trunk.learning_rate == best.learning_rate:
            steps, is_over = trunk.steps_to(wanted, judge), trunk.diverged_at is not None
            if steps is not None or is_over or (trunk.last is not None and trunk.last.num_steps >= far):
                found[trunk.seed] = math.inf if steps is None else steps
    return list(found.values())


def has_risen(points: Sequence[Point]) -> bool:
    """Whether the last of the losses lies clearly above the least of them."""
    losses = [point.loss for point in points]
    return not losses[-1] <= RISEN * min(losses)


def loss_at(trunks: Iterable[Trunk], wanted: float) -> float | None:
    """The highest loss with which a run came to a score; None where none did, or their losses had risen again by then.

    A score of a few hundred samples meets a target by luck, one sample more or less; at equal loss runs can be ranked.
    """
    found = []
    for trunk in trunks:
        there = next((place for place, point in enumerate(trunk.points) if point.value <= wanted), None)
        if there is not None:
            if has_risen(trunk.points[: there + 1]):
                return None
            found.append(trunk.points[there].loss)
    return max(found, default=None)


def point_of(result: Grown, to_step: int, question: RateQuestion) -> Point:
    """What a run came to; a loss that is no number is infinite."""
    return Point(
        to_step=to_step,
        num_steps=result.num_steps,
        num_samples=result.num_samples,
        value=value_of(result, question),
        loss=result.loss if result.loss is not None and math.isfinite(result.loss) else math.inf,
        score=result.score,
    )


def add_trunk(
    trunks: dict[tuple[float, int], Trunk], request: GrowTrunk, result: Grown, question: RateQuestion
) -> None:
    """Put one growth to the trunk it belongs to."""
    settings = request.settings
    key = (float(settings["learning_rate"]), int(settings["seed"]))
    size = update_size(settings)
    trunk = trunks.setdefault(key, Trunk(learning_rate=key[0], batch_size=size, seed=key[1]))
    if result.diverged:
        trunk.diverged_at = request.to_step
    elif request.to_step:
        point = point_of(result, request.to_step, question)
        trunk.points = sorted([*trunk.points, point], key=lambda each: each.num_steps)
    if result.noise_sizes is not None and result.small_squares:
        small, big = result.noise_sizes
        seen = GradientSquares(small_size=small, big_size=big, small=result.small_squares, big=result.big_squares)
        is_whole = result.grown_steps >= request.to_step  # one trained again shows what was seen of it before
        trunk.squares = [seen] if is_whole else [*trunk.squares, seen]


def _between(before: tuple[int, float] | None, after: tuple[int, float], value: float) -> float:
    """The length at which the value is met, on a straight line over ln steps."""
    if before is None or not math.isfinite(before[1]) or before[1] <= value:
        return float(after[0])
    share = (before[1] - value) / (before[1] - after[1])
    return float(before[0] * (after[0] / before[0]) ** share)
