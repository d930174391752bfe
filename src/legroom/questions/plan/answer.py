"""The answer of `legroom plan`, with the names scripts rely on."""

from dataclasses import dataclass, field
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
    cooldown_steps: int | None = None
    schedule: str
    num_steps: int | None
    """Updates to the target."""
    num_epochs: int
    num_devices: int
    num_devices_missing: int = 0
    """Of these, that are not here: what they take is a forecast."""
    model_size: str = ""
    """As "width=64"; empty: the job's own model."""
    precision: str
    goal: str
    target: str = ""
    """What the run is to reach, as "score=0.97"; empty where nothing is judged."""
    predicted_seconds: float | None
    """To the target."""
    predicted_range: tuple[float, float] | None
    predicted_cost: float | None = None
    """In the currency of the price, where one was named."""
    baseline_seconds: float | None
    """To the same target by the job's own settings."""
    baseline_from: str = ""
    """`measured`, `forecast`, or empty where nothing is known."""
    kept: bool = False
    """Whether the job's own settings stay, because nothing was surely better."""
    settings: dict[str, Any]
    baseline: dict[str, Any] = field(default_factory=dict)
    """The job's own settings."""
    factors: dict[str, Any] = field(default_factory=dict)
    """The numbers of laws/time_to_target, by the names of its arguments; empty where there is no forecast."""
    spent: dict[str, float] = field(default_factory=dict)
    """Seconds that each question took."""
    found: dict[str, str] = field(default_factory=dict)
    """What each of them found, in a few words."""
    before: dict[str, float] = field(default_factory=dict)
    """Seconds that measuring took of what lay in the folder already, by questions too."""
    cost_seconds: float = 0.0
    """All that finding the plan took: `spent` and `before`."""
    missing: list[str] = field(default_factory=list)
    """What the plan leaves open, and what that would need."""
    offers: list[dict[str, Any]] = field(default_factory=list)
    """Forecasts for cards that can be rented, the soonest first; empty where none was named."""
    sizes: list[dict[str, Any]] = field(default_factory=list)
    """What the target takes with models of other sizes, where some were named."""
    code: dict[str, str] = field(default_factory=dict)
    """The plan as lines of code for PyTorch, Lightning, Transformers and Accelerate, by their names."""
    shown_code: str = ""
    """Whose lines the terminal prints."""
    plan_path: str = ""
    """The plan.toml that was written; empty in answers of earlier versions."""

    @property
    def files(self) -> tuple[Path, ...]:
        """The plan for people."""
        return (Path(self.plan_path),) if self.plan_path else ()
