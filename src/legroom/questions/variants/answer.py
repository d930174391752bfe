"""The answer of `legroom variants`, with the names scripts rely on."""

from dataclasses import dataclass, field
from typing import Any

from legroom.questions.base import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantsAnswer(Answer):
    """Which variants pay, each measured."""

    device: str
    batch_size: int
    num_steps: int | None
    """Updates of the run they must pay in; None where nobody knows."""
    chosen: list[str]
    """Those to run with, together; empty where none pays."""
    speedup: float
    """How many times faster an update is with them; 1 with none."""
    speedup_range: tuple[float, float]
    own_step_seconds: float | None
    """Of an update by the settings without them; None where nothing could be timed."""
    start_seconds: float
    """What they take once, at the start of a run."""
    points: list[dict[str, Any]]
    """Each variant, then those timed together: `name`, `variants`, `verdict`, `ratio`, `range`, `step_seconds`,
    `own_seconds`, `start_seconds`, `pays_after_steps`, `memory_ratio`, `losses`, `because`; None for what was not
    measured."""
    curves: dict[str, list[list[float]]] = field(default_factory=dict)
    """Losses of each update by seed, under "own" and under names joined by " + "."""
    baseline: dict[str, Any]
    """The settings without them."""
    settings: dict[str, Any]
    """The settings with those chosen."""
