"""The answer of `legroom speed`, with the names scripts rely on."""

from dataclasses import dataclass, field
from typing import Any

from legroom.questions.base import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedAnswer(Answer):
    """Seconds a step by batch size, and the batch from which a larger one hardly pays."""

    device: str
    precision: str
    rule: str
    quick: bool = False
    """Whether each size was looked at once, for a plan, and not timed closely."""
    share: float
    batch_sizes: list[int] = field(default_factory=list)
    """Sizes that were named; empty where legroom chose them."""
    knee_batch_size: int
    range: tuple[int, int]
    """Between which the knee lies, by the intervals of law and timings."""
    best_batch_size: int
    best_samples_per_second: float
    largest_batch_size: int
    largest_because: str
    """Why no larger one was timed."""
    points: list[dict[str, Any]]
    predictions: list[dict[str, Any]]
    """What the law says of the sizes of the grid; nothing where the law was refused."""
    law: dict[str, Any]
    flops_per_sample: float | None
    peak_flops_per_second: float | None
    """Of matrix products, measured on this device."""
    kept_memory: list[dict[str, Any]] = field(default_factory=list)
    """Sizes timed again in a process that keeps the memory a step frees, where fetching it anew takes a share."""
    settings_tried: list[dict[str, Any]] = field(default_factory=list)
    """Variables of the environment that two sizes were timed with again, on a CPU, and what each gained."""
    padding: dict[str, Any] | None
    num_samples: int | None
    """Of an epoch, where its length is known."""
    settings: dict[str, Any]
    baseline: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentAnswer(Answer):
    """Which variables of the environment pay at one batch size; it is asked by a plan, and kept in it."""

    device: str
    precision: str
    batch_size: int
    variables: dict[str, str]
    """Those to run with; empty where none pays."""
    speedup: float = 1.0
    """How many times as fast steps are with them."""
    speedup_range: tuple[float, float] = (1.0, 1.0)
    """Of the turns."""
    tried: list[dict[str, Any]] = field(default_factory=list)
    """Each setting: `environment`, and `ratios`, the times as fast in each turn."""
