"""The answer of `legroom sweep`, with the names scripts rely on."""

from dataclasses import dataclass
from typing import Any

from legroom.questions.base import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepAnswer(Answer):
    """Every point of the grid."""

    device: str
    points: list[dict[str, Any]]
    """`batch_size`, `learning_rate`, `num_workers`, `score`, `loss`, `seconds` to that score, `utilisation`,
    `num_steps`, `num_samples`, `memory_bytes`, `stopped_because`, `failure`, `train_seconds`, `best_step`, ..."""
    best: dict[str, Any] | None
    """The point with the best score."""
    fastest: dict[str, Any] | None
    """The point that first came within 1 % of the best score, with its `seconds_to_target` and `steps_to_target`."""
    watch: str
    patience: int
    num_samples: int
    """That all trials trained on, those that failed or diverged as far as they ran."""
    num_failed: int
    together: int
    settings: dict[str, Any]
