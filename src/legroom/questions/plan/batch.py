"""The batch of a plan whose rate cannot be sought: the job's own or one that was named, and no more than was proved."""

from dataclasses import dataclass

from legroom.errors import UsageError
from legroom.job import Settings
from legroom.laws.memory import split_batch
from legroom.questions.base import Recommendation
from legroom.questions.memory.answer import MemoryAnswer
from legroom.questions.plan.records import PlanQuestion
from legroom.units import format_bytes

MULTIPLE = 16
"""Of the job's own batch: larger ones are not proved while nobody has timed whether they pay."""


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


def first_worth(own: int) -> Worth:
    """A multiple of the job's own, before any was timed.

    >>> first_worth(64).most
    1024
    """
    return Worth(most=MULTIPLE * own, because=f"that is {MULTIPLE} times the job's own, and none was timed yet")


def refuse_batch(question: PlanQuestion) -> None:
    """Refuse a batch that was named where the data set has fewer samples, before anything is measured."""
    size, most = question.batch_size, question.num_samples
    if size is not None and most is not None and size > most:
        raise UsageError(f"--batch-size {size:,} is more than the {most:,} samples there are. Name at most that")


def reach(question: PlanQuestion, memory: MemoryAnswer) -> int:
    """The batch of one pass, as far as it fits: the one that was named, else the job's own."""
    return min(limit_of(memory), question.batch_size or int(question.baseline["batch_size"]))


def limit_of(memory: MemoryAnswer) -> int:
    """What memory was proved to hold, and the data set has."""
    return min(memory.range[0], memory.data_limit or memory.range[0])


def needs_passes(question: PlanQuestion, memory: MemoryAnswer) -> bool:
    """Whether the job's own update takes several passes of all that fits: then gradients are held beside them."""
    return question.own_size > limit_of(memory) == reach(question, memory)


def recommend_batch(question: PlanQuestion, memory: MemoryAnswer, *, own_step: bool) -> list[Recommendation]:
    """Batch and passes where no rate can be sought: as named or the job's own, as far as it fits. Nobody could tell
    whether another batch learns as well with the rate that stays.

    The update is no smaller than the job's own, unless the job's own step cannot be split.
    """
    size, steps = _split(question, memory, own_step)
    evidence, because = memory.recommendations[0].evidence, _because(question, memory, size, steps)
    passes = "one pass an update" if steps == 1 else f"{steps} passes of {size:,} make an update of {size * steps:,}"
    return [
        Recommendation(
            name="batch_size", value=size, range=(1, limit_of(memory)), because=because, evidence=list(evidence)
        ),
        Recommendation(name="accumulation_steps", value=steps, range=None, because=passes, evidence=list(evidence)),
    ]


def _split(question: PlanQuestion, memory: MemoryAnswer, own_step: bool) -> tuple[int, int]:
    most = reach(question, memory)
    if own_step or question.own_size <= most:
        return most, 1
    if needs_passes(question, memory) and memory.micro_batch_size and memory.accumulation_steps:
        return memory.micro_batch_size, memory.accumulation_steps
    return split_batch(question.own_size, most)


def _because(question: PlanQuestion, memory: MemoryAnswer, size: int, steps: int) -> str:
    budget, own, limit = format_bytes(memory.budget_bytes), int(question.baseline["batch_size"]), limit_of(memory)
    found = "estimated" if memory.estimate else "proved" if memory.verified else "seen"
    if question.batch_size is not None:
        return "as asked" if question.batch_size <= limit else f"the most {found} to fit {budget}"
    if own > limit and steps == 1:
        return (
            f"the most {found} to fit {budget}; your {own:,} do not, and a job with its own step has one pass an update"
        )
    if own > limit:
        wanted = question.own_size
        return f"your {wanted:,} at once do not fit {budget}; {steps} passes of {size:,} give the same update"
    if question.speed is None:
        bound = "all of the data set" if limit == memory.data_limit else f"{found} within {budget}"
        return f"the job's own; {limit:,} would fit ({bound}); whether more pays, legroom speed tells"
    return "the job's own: another batch needs another rate, and none can be sought"


def knee_note(question: PlanQuestion) -> list[str]:
    """From where a larger batch hardly pays, where the job's own surely lies below that."""
    speed, own = question.speed, int(question.baseline["batch_size"])
    if speed is None or question.batch_size is not None or own >= speed.range[0]:
        return []
    low, high = speed.range
    return [
        f"Samples are computed faster up to batches of {speed.knee_batch_size:,} ({low:,} to {high:,}); the rate for "
        "one of these would have to be found. --batch-size names it"
    ]


def rate_note(baseline: Settings, settings: Settings) -> list[str]:
    """A warning where an update joins more samples than the job's own rate was chosen for."""
    old, new = (each.batch_size * each.accumulation_steps for each in (baseline, settings))
    if new <= old:
        return []
    return [
        f"An update joins {new:,} samples instead of {old:,}, so an epoch has fewer updates; the learning rate of "
        f"{settings.learning_rate:g} is the job's own, and which rate suits was not measured: watch the score"
    ]
