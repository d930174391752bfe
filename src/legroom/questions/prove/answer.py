"""The answer of `legroom prove`, with the names scripts rely on."""

from dataclasses import dataclass
from typing import Any, Literal

from legroom.questions.base import Answer

Verdict = Literal["won", "lost", "equal", "unclear"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProveAnswer(Answer):
    """A plan beside its rival, over seeds."""

    device: str
    plan_path: str
    against: str
    target: dict[str, Any]
    """`name` and `value`."""
    seeds: list[int]
    verdict: Verdict
    speedup: float | None
    """The rival's seconds over the plan's; None where one of them never met the target."""
    range: tuple[float, float] | None
    """Between which the speedup lies at 90 %, by the seeds; None where they do not tell."""
    at_least: bool
    """Whether the rival missed the target with some seed, so that the plan is faster than `speedup` says."""
    plan_seconds: float | None
    """To the target: all seconds spent, runs that missed it included, over the runs that met it."""
    rival_seconds: float | None
    plan_money: float | None = None
    """What these seconds cost on all devices, in the currency of the price; None where no price was named."""
    rival_money: float | None = None
    plan_steps: float
    """Updates to the target, or of the whole run where it was missed, in the mean."""
    rival_steps: float
    plan_score: float | None
    """What the target names, when it was met, or at the end of runs that missed it, in the mean."""
    rival_score: float | None
    num_plan_reached: int
    num_rival_reached: int
    equal_time: dict[str, Any] | None
    """After the rival's own seconds: `plan_score`, `rival_score`, `spread` of the rival's seeds, `no_worse`."""
    plan_cost_seconds: float | None
    """What making the plan took."""
    payback_runs: float | None
    """Runs whose saved time pays for the plan; None where it saves none, or nobody knows what it took."""
    predicted_seconds: float | None
    predicted_range: tuple[float, float] | None
    num_predicted_hits: int | None
    """Of the plan's runs, those that met the target inside the predicted range."""
    evaluate_samples: int | None
    """Samples between two evaluations, in both arms; None: after every epoch."""
    plan_settings: dict[str, Any]
    rival_settings: dict[str, Any]
    points: list[dict[str, Any]]
    """One for each run."""
