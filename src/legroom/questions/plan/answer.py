"""The answer of `legroom plan`, with the names scripts rely on."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from legroom.questions.base import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanAnswer(Answer):
    """The plan, with the names scripts rely on; None stands for what was not measured."""

    batch_size: int
    accumulation_steps: int
    num_workers: int
    prefetch_factor: int
    learning_rate: float
    warmup_steps: int
    schedule: str
    num_steps: int | None
    num_epochs: int
    num_devices: int
    precision: str
    goal: str
    predicted_seconds: float | None
    predicted_range: tuple[float, float] | None
    baseline_seconds: float | None
    settings: dict[str, Any]
    plan_path: str = ""
    """The plan.toml that was written; empty in answers of earlier versions."""

    @property
    def files(self) -> tuple[Path, ...]:
        """The plan for people."""
        return (Path(self.plan_path),) if self.plan_path else ()
