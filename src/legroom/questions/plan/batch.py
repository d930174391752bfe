"""The batch of a plan: the knee of `speed` where it is known, the job's own otherwise, and no more than was proved."""

from dataclasses import dataclass

from legroom.job import Settings
from legroom.laws.memory import UNBOUNDED, split_batch
from legroom.questions.base import Recommendation
from legroom.questions.memory.answer import MemoryAnswer
from legroom.questions.speed.answer import SpeedAnswer
from legroom.units import format_bytes

MULTIPLE = 16
"""Of the job's own batch: larger ones are not proved while nobody has timed whether they pay."""
FEWEST_UPDATES = 10
"""Of an epoch: with fewer the knee's time for a sample is saved, and hardly anything is learned in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """The largest batch that could be worth running."""

    most: int
    because: str

    def note(self, memory: MemoryAnswer) -> list[str]:
        """A sentence where this, and neither memory nor the data, ended the search."""
        if memory.estimate or memory.max_batch_size < self.most or self.most >= (memory.data_limit or self.most + 1):
            return []
        return [f"Batches above {self.most:,} were not tried: {self.because}; legroom memory finds the largest"]


def worth_proving(own: int, speed: SpeedAnswer | None) -> Worth:
    """The fastest batch that was timed; a multiple of the job's own where none was.

    >>> worth_proving(64, None).most
    1024
    """
    if speed is None:
        return Worth(most=MULTIPLE * own, because=f"that is {MULTIPLE} times the job's own, and none was timed yet")
    most = max(own, speed.knee_batch_size, speed.best_batch_size)
    return Worth(most=most, because="of those that legroom speed timed none was faster")


def reach(baseline: Settings, memory: MemoryAnswer, speed: SpeedAnswer | None) -> int:
    """The largest batch of one pass: up to the knee, as long as an epoch keeps some updates, and to the limit."""
    learns = UNBOUNDED if memory.data_limit is None else max(1, memory.data_limit // FEWEST_UPDATES)
    # A larger batch costs updates, so it must be sure that it pays: the job's own lies below all that the knee may be.
    knee = speed.knee_batch_size if speed and baseline.batch_size < speed.range[0] else 0
    return min(limit_of(memory), max(min(knee, learns), baseline.batch_size))


def limit_of(memory: MemoryAnswer) -> int:
    """What memory was proved to hold, and the data set has."""
    return min(memory.range[0], memory.data_limit or memory.range[0])


def needs_passes(baseline: Settings, memory: MemoryAnswer, speed: SpeedAnswer | None) -> bool:
    """Whether the job's own update takes several passes of all that fits: then gradients are held beside them."""
    limit = limit_of(memory)
    return baseline.batch_size * baseline.accumulation_steps > limit == reach(baseline, memory, speed)


def recommend_batch(
    baseline: Settings, memory: MemoryAnswer, speed: SpeedAnswer | None, *, own_step: bool
) -> list[Recommendation]:
    """Batch and passes; the update is no smaller than the job's own, unless the job's own step cannot be split."""
    size, steps = _split(baseline, memory, speed, own_step)
    evidence = [*(["step_times"] if speed else []), *memory.recommendations[0].evidence]
    limit = limit_of(memory)
    span = (1, limit) if speed is None else (min(size, speed.range[0]), max(size, min(limit, speed.range[1])))
    because = _because(baseline, memory, speed, size, steps)
    passes = "one pass an update" if steps == 1 else f"{steps} passes of {size:,} make an update of {size * steps:,}"
    return [
        Recommendation(name="batch_size", value=size, range=span, because=because, evidence=evidence),
        Recommendation(name="accumulation_steps", value=steps, range=None, because=passes, evidence=evidence),
    ]


def _split(baseline: Settings, memory: MemoryAnswer, speed: SpeedAnswer | None, own_step: bool) -> tuple[int, int]:
    wanted, most = baseline.batch_size * baseline.accumulation_steps, reach(baseline, memory, speed)
    if own_step or wanted <= most:
        return most, 1
    if needs_passes(baseline, memory, speed) and memory.micro_batch_size and memory.accumulation_steps:
        return memory.micro_batch_size, memory.accumulation_steps
    return split_batch(wanted, most)


def _because(baseline: Settings, memory: MemoryAnswer, speed: SpeedAnswer | None, size: int, steps: int) -> str:
    budget, own, limit = format_bytes(memory.budget_bytes), baseline.batch_size, limit_of(memory)
    found = "estimated" if memory.estimate else "proved" if memory.verified else "seen"
    if own > limit and steps == 1:
        return (
            f"the most {found} to fit {budget}; your {own:,} do not, and a job with its own step has one pass an update"
        )
    if own > limit:
        wanted = own * baseline.accumulation_steps
        return f"your {wanted:,} at once do not fit {budget}; {steps} passes of {size:,} give the same update"
    if speed is None:
        bound = "all of the data set" if limit == memory.data_limit else f"{found} within {budget}"
        return f"the job's own; {limit:,} would fit ({bound}); whether more pays, legroom speed tells"
    knee, why = speed.knee_batch_size, speed.recommendations[0].because
    if knee <= own:
        return f"the job's own; it is already past the knee of {knee:,}, {why}"
    if own >= speed.range[0]:
        low, high = speed.range
        return f"the job's own; the timings leave a knee from {low:,} to {high:,}, so it is not sure that more pays"
    if knee > limit == size:
        return f"the most {found} to fit {budget}; the knee is {knee:,}, {why}"
    if knee > size:
        return f"a tenth of the data set, so that an epoch keeps {FEWEST_UPDATES} updates; the knee is {knee:,}, {why}"
    return f"{why}; {found} to fit {budget}"


def rate_note(baseline: Settings, settings: Settings) -> list[str]:
    """A warning where an update joins more samples than the job's own rate was chosen for."""
    old, new = (each.batch_size * each.accumulation_steps for each in (baseline, settings))
    if new <= old:
        return []
    return [
        f"An update joins {new:,} samples instead of {old:,}, so an epoch has fewer updates; the learning rate of "
        f"{settings.learning_rate:g} is the job's own, and which rate suits was not measured: watch the score"
    ]
