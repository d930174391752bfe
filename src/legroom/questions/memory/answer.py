"""The answer of `legroom memory`, with the names scripts rely on."""

from dataclasses import dataclass
from typing import Any

from legroom.environments import Allocator
from legroom.questions.base import Answer


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
    peak_parts: dict[str, int]
    """What the bytes are, where a trace tells."""
    verified: bool
    estimate: bool
    num_ooms: int
    allocator: Allocator | None = None
    """How torch keeps the card's memory for this to hold: expandable or default; None on a host."""
    num_devices: int = 1
    """Data-parallel devices that were asked for."""
    effective_batch: int | None = None
    """The batch that was to be made of several passes, where one was asked for."""
    rule: str = "legroom"
    micro_batch_size: int | None
    accumulation_steps: int | None
    settings: dict[str, Any]
    """What to run: the job's own settings with the batch found."""
    baseline: dict[str, Any]
    """The job's own settings."""
    probes: list[dict[str, Any]]
