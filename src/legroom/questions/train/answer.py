"""The answer of `legroom train`, with the names scripts rely on."""

from dataclasses import dataclass, field
from typing import Any

from legroom.questions.base import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainAnswer(Answer):
    """The run and its scores."""

    device: str
    stopped_because: str
    final_score: float | None
    final_loss: float | None
    """On the validation data; of the last update where there is none."""
    best_score: float | None
    chance: float | None = None
    """The score of a model that learned nothing, where the job says so."""
    left_chance: bool | None = None
    """Whether the best score is better than that by more than luck may gain; None where nobody knows."""
    num_steps: int
    num_epochs: float
    num_steps_to_one_percent: int | None
    """Updates until the validation loss was within 1 % of its minimum."""
    seconds_to_target: float | None
    """None where there was no target, or it was not reached."""
    train_seconds: float
    """Training and evaluating, start-up left out."""
    samples_per_second: float
    data_wait_share: float
    learning_rate: float
    resumed_from: int | None
    checkpoint: str | None
    target: tuple[str, float] | None
    settings: dict[str, Any]
    evaluations: list[dict[str, Any]]
    cooldowns: list[dict[str, Any]] = field(default_factory=list)
    """Those that a run until its target tried, each with the fields of `training.records.Cooldown`."""
    num_missed_steps: int = 0
    """Updates of cooldowns that missed the target; `num_steps` is without them."""
    curve: dict[str, list[int | float]] = field(default_factory=dict)
    """Points evenly over the updates, by column: `step`, `seconds`, mean `loss` since the point before, `rate`."""

    @property
    def exit_code(self) -> int:
        """A shell's for a run that was interrupted."""
        return 130 if self.stopped_because == "interrupted" else 0
