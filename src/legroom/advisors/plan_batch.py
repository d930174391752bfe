"""The batch of a plan: the knee of `speed` where it is known, the job's own otherwise, and no more than was proved."""

from dataclasses import dataclass

from legroom.advisors.memory import MemoryAnswer
from legroom.advisors.speed import SpeedAnswer
from legroom.job import Settings
from legroom.laws.memory import UNBOUNDED, split_batch
from legroom.plan import Recommendation
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


def recommend_batch(baseline: Settings, memory: MemoryAnswer, speed: SpeedAnswer | None) -> list[Recommendation]:
    """Batch and passes: up to the knee and the limit, and never a smaller update than the job's own."""
    limit = min(memory.range[0], memory.data_limit or memory.range[0])
    wanted = baseline.batch_size * baseline.accumulation_steps
    knee = speed.knee_batch_size if speed else 0
    reach = min(limit, max(min(knee, _learns(memory)), baseline.batch_size))
    size, steps = (reach, 1) if wanted <= reach else split_batch(wanted, reach)
    because = _because(baseline, memory, speed, limit, size, steps)
    evidence = [*(["step_times"] if speed else []), *memory.recommendations[0].evidence]
    span = (1, limit) if speed is None else (min(size, speed.range[0]), max(size, min(limit, speed.range[1])))
    passes = "one pass an update" if steps == 1 else f"{steps} passes of {size:,} make an update of {size * steps:,}"
    return [
        Recommendation(name="batch_size", value=size, range=span, because=because, evidence=evidence),
        Recommendation(name="accumulation_steps", value=steps, range=None, because=passes, evidence=evidence),
    ]


def _learns(memory: MemoryAnswer) -> int:
    """The largest batch that leaves an epoch some updates."""
    return UNBOUNDED if memory.data_limit is None else max(1, memory.data_limit // FEWEST_UPDATES)


def _because(
    baseline: Settings, memory: MemoryAnswer, speed: SpeedAnswer | None, limit: int, size: int, steps: int
) -> str:
    budget, own = format_bytes(memory.budget_bytes), baseline.batch_size
    found = "estimated" if memory.estimate else "proved"
    if own > limit:
        wanted = own * baseline.accumulation_steps
        return f"your {wanted:,} at once do not fit {budget}; {steps} passes of {size:,} give the same update"
    if speed is None:
        bound = "all of the data set" if limit == memory.data_limit else f"{found} within {budget}"
        return f"the job's own; {limit:,} would fit ({bound}); whether more pays, legroom speed tells"
    knee, why = speed.knee_batch_size, speed.recommendations[0].because
    if knee <= own:
        return f"the job's own; it is already past the knee of {knee:,}, {why}"
    if knee > size < limit:
        return f"a tenth of the data set, so that an epoch keeps {FEWEST_UPDATES} updates; the knee is {knee:,}, {why}"
    if knee > limit:
        return f"the most {found} to fit {budget}; the knee is {knee:,}, {why}"
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
