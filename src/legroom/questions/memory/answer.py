"""The answer of `legroom memory`, with the names scripts rely on."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from legroom.environments import Allocator
from legroom.logbook import Records
from legroom.questions.base import Answer
from legroom.questions.memory.records import MemoryQuestion, StepPeaks


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryAnswer(Answer):
    """The largest batches within the budget."""

    device: str
    card: str | None
    """Name of the card in question, where one was named."""
    budget_bytes: int
    budget_named: bool = True
    """Whether the memory or the card was named; else the budget is what was free then."""
    max_batch_size: int
    """What memory allows."""
    data_limit: int | None
    """What the data set allows; None where its length is unknown."""
    typical_batch_size: int | None
    """What memory allows if no batch is worse than a typical one; None where all samples are alike."""
    eval_batch_size: int | None
    """Its own number: no gradients and no graph are kept; None where it was not asked."""
    range: tuple[int, int]
    """From the size proved to the size the law would allow."""
    bytes_per_sample: float
    fixed_bytes: float
    peak_bytes: int
    """What the largest batch takes."""
    peak_phase: str
    """The part of the step that takes it."""
    peak_parts: dict[str, int] = field(default_factory=dict)
    """What the bytes are, where a trace tells."""
    verified: bool
    estimate: bool
    num_ooms: int = 0
    allocator: Allocator | None = None
    """How torch keeps the card's memory for this to hold: expandable or default; None on a host."""
    num_devices: int = 1
    """Data-parallel devices that were asked for."""
    num_workers: int | None = None
    """Loader processes that share the budget, on a host; None where nobody said."""
    options: dict[str, Any] = field(default_factory=dict)
    """Settings of the step that it was proved with in place of the job's own."""
    variables: dict[str, str] = field(default_factory=dict)
    """Of the environment, that it was proved with."""
    effective_batch: int | None = None
    """The batch that was to be made of several passes, where one was asked for."""
    rule: str = "legroom"
    micro_batch_size: int | None
    accumulation_steps: int | None
    settings: dict[str, Any]
    """What to run: the job's own settings with the batch found and the precision it was found for."""
    baseline: dict[str, Any]
    """The job's own settings."""
    probes: list[dict[str, Any]] = field(default_factory=list)


def as_run(one: StepPeaks | MemoryQuestion | MemoryAnswer) -> tuple[dict[str, Any], dict[str, str]]:
    """The options of its steps and the variables of its environment."""
    return dict(one.options), dict(one.variables)


Split = tuple[int, int] | tuple[None, None]
"""Micro-batch and passes of the batch that was asked for, where one was."""


def answer_of(
    records: Records,
    question: MemoryQuestion,
    largest: int,
    *,
    split: Split = (None, None),
    notes: Sequence[str],
    **found: Any,
) -> MemoryAnswer:
    """The answer with what the question and the job say of themselves."""
    description, (micro, passes) = records.description(), split
    chosen = {"batch_size": micro or largest, "accumulation_steps": passes or 1, "precision": question.precision}
    return MemoryAnswer(
        job=records.head.job,
        machine=records.head.machine,
        seconds=records.seconds(),
        notes=[*records.notes, *description.notes, *notes],
        device=question.device,
        card=question.card,
        budget_bytes=question.budget_bytes,
        budget_named=question.budget_named,
        max_batch_size=largest,
        data_limit=description.widest_batch or description.num_samples,
        num_devices=question.num_devices,
        num_workers=question.num_workers if question.device == "cpu" else None,
        options=dict(question.options),
        variables=dict(question.variables),
        effective_batch=question.effective_batch,
        rule=question.rule,
        micro_batch_size=micro,
        accumulation_steps=passes,
        settings={**description.baseline, **chosen},
        baseline=dict(description.baseline),
        **found,
    )
