"""The answer of `legroom rate`, with the names scripts rely on."""

from dataclasses import dataclass, field
from typing import Any

from legroom.questions.base import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class RateAnswer(Answer):
    """Which rate, how many updates, and how both move with the batch."""

    device: str
    method: str
    batch_size: int
    learning_rate: float
    range: tuple[float, float]
    """Rates that need hardly more updates, by the seeds and the parabola through the rates tried."""
    warmup_steps: int
    cooldown_steps: int
    schedule: str
    num_steps: int
    """Updates to the target, warm-up and cooldown included."""
    steps_range: tuple[float | None, float | None]
    """Over the seeds; None where one did not reach the target."""
    num_epochs: float
    target: dict[str, Any]
    """`name`, `value`, and where it comes from: `given`, `measured` by the job's own settings, or `forecast`."""
    reached: bool
    best_value: float | None
    """The best score or loss seen."""
    sensitivity: dict[str, float]
    """Updates at half and at twice the rate, as multiples of those at the rate."""
    rule: str
    """How the rate moves with the batch."""
    critical_batch_size: float | None
    critical_range: tuple[float, float] | None
    law: dict[str, Any]
    num_trials: int
    num_samples: int
    """Samples that the search trained on."""
    baseline_steps: int
    """Updates of a run by the job's own settings."""
    baseline_seconds: float | None = None
    """Training by the job's own settings until the target was first met, evaluations left out; None where not run."""
    step_seconds: float | None = None
    """Of one update at this batch size, evaluations left out."""
    curves: list[dict[str, Any]] = field(default_factory=list)
    """Of each trunk: rate, seed, updates and value of runs that end there."""
    settings: dict[str, Any]
    baseline: dict[str, Any]
