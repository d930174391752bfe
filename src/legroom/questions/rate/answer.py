"""The answer of `legroom rate`, with the names scripts rely on."""

from dataclasses import dataclass, field
from typing import Any

from legroom.questions.base import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class RateAnswer(Answer):
    """Which rate, how many updates, and how both move with the batch."""

    device: str
    method: str
    fraction: float = 1.0
    """Share of the training data that the search used."""
    batch_size: int
    learning_rate: float
    range: tuple[float, float]
    """Rates that need hardly more updates, by the parabola through the rates tried and by how far seeds differ."""
    warmup_steps: int
    cooldown_steps: int
    schedule: str
    num_steps: int
    """Updates to the target, warm-up and cooldown included; 0 of a range test, which knows none."""
    steps_range: tuple[float | None, float | None]
    """Over the seeds; None where one did not reach the target."""
    num_epochs: float
    target: dict[str, Any]
    """`name`, `value`, its `range`, and `from` where: `given`, `measured` by the job's own settings, `forecast`,
    `begun` where their run hardly was, or `reached` by a method that aims at none."""
    reached: bool
    seeds_there: tuple[int, int] | None = None
    """Seeds that reached the target with this rate, and those tried with it; None of methods that confirm on none."""
    best_value: float | None
    """The best score or loss seen."""
    sensitivity: dict[str, float]
    """Updates at half and at twice the rate, as multiples; of a range test, by the slopes there."""
    rule: str
    """How the rate moves with the batch: `linear` or `sqrt`, levelling off beyond the critical batch size."""
    rule_from: str = "optimizer"
    """`branches` where they tell the rule; `optimizer` where it is the usual one for its kind."""
    critical_batch_size: float | None = None
    critical_range: tuple[float, float] | None = None
    """As far as branches differ, and never told narrower than by a factor 2 to each side."""
    critical_edge: float | None = None
    """Where branches tell only that it lies about here or beyond: far above this batch size, or far below."""
    critical_from: str | None = None
    """`branches`; None where they tell no number."""
    noise_scale: float | None = None
    """The free first guess of the critical batch size, from gradients of the trunks themselves."""
    noise_range: tuple[float, float | None] | None = None
    law: dict[str, Any] = field(default_factory=dict)
    """`least_steps`, its range `least_steps_range` and `critical_batch_size`, where branches tell them."""
    num_trials: int
    num_samples: int
    """Samples that the search trained on, runs by the job's own settings included."""
    baseline_steps: int
    """Updates of a run by the job's own settings."""
    baseline_seconds: float | None = None
    """Training by the job's own settings until the target was first met, evaluations left out; None where not run."""
    step_seconds: float | None = None
    """Of one update at this batch size, evaluations left out."""
    extrapolated_steps: tuple[float, float | None] | None = None
    """Updates to a target that was not reached, by the shape of the best curve; None for what it never reaches.

    Of a rate that is carried to another batch size, by the law: equal ends where the known batch was there."""
    on_all_data: dict[str, Any] | None = None
    """Where a part of the data was searched, a run of this rate on all of it: whether it `reached` the target, in
    `num_steps`, how many `times` those on the part, and its `best_value`; None where there was no such run."""
    curves: list[dict[str, Any]] = field(default_factory=list)
    """Of each trunk: name, rate, seed, updates and value of runs that end there."""
    trials: list[dict[str, Any]] = field(default_factory=list)
    """What else was compared, in words of the method: sizes and rates of `greedy`, rules of `transfer`."""
    settings: dict[str, Any]
    baseline: dict[str, Any]
