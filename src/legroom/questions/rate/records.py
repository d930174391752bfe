"""How a job learns: trunks at a constant rate, and branches that cool down or change the batch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from legroom.environments import UNCHANGED, Environment
from legroom.requests import RecordKind, Request

Learned = TypeVar("Learned")
Goal = Literal["max", "min"]
Shape = Literal["linear", "sqrt"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnRequest(Request[Learned]):
    """What requests about learning share."""

    device: str
    settings: Mapping[str, Any]
    """The whole of `Settings`: batch size, rate, warm-up and seed of the trunk."""
    fraction: float = 1.0
    """Share of the training data that is used."""

    @property
    def environment(self) -> Environment:
        """The user's own."""
        return UNCHANGED


@dataclass(frozen=True, slots=True, kw_only=True)
class RampRate(LearnRequest["RateRamp"]):
    """Ask for the loss while the rate climbs exponentially from update to update (Smith's range test)."""

    kind: Literal["ramp_rate"] = "ramp_rate"
    least_rate: float = 1e-6
    most_rate: float = 10.0
    num_steps: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class RateRamp:
    """The losses of a ramp, up to the update at which they blew up."""

    kind: Literal["rate_ramp"] = "rate_ramp"
    rates: Sequence[float]
    losses: Sequence[float]
    """Of each update's own batch."""
    diverged: bool
    num_samples: int
    seconds: float
    steps_per_epoch: int | None = None
    """Updates of an epoch at this batch size; None where nobody knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowTrunk(LearnRequest["Grown"]):
    """Ask for a trunk grown to an update at its constant rate, and for what a copy gives that cools down from there."""

    kind: Literal["grow_trunk"] = "grow_trunk"
    to_step: int
    cooldown_steps: int = 0
    """Updates over which the copy's rate falls to 0 before it is evaluated; 0 evaluates the trunk itself."""
    shape: Shape = "linear"


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchBatch(LearnRequest["Grown"]):
    """Ask what a copy of the trunk gives that goes on with another batch size and rate, and cools down at its end."""

    kind: Literal["branch_batch"] = "branch_batch"
    from_step: int
    batch_size: int
    learning_rate: float
    num_steps: int
    """Updates at the other batch size, the cooldown's included."""
    cooldown_steps: int
    shape: Shape = "linear"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grown:
    """Where a trunk or a branch stands: what it was evaluated to, and what that cost."""

    kind: Literal["grown"] = "grown"
    diverged: bool = False
    loss: float | None = None
    """On the validation data, after the cooldown."""
    score: float | None = None
    train_loss: float | None = None
    """Mean over the last tenth of the updates before the cooldown."""
    num_steps: int = 0
    """Updates of a run that ends here: the trunk's, and the branch's."""
    num_samples: int = 0
    """Of such a run."""
    paid_samples: int = 0
    """Samples that answering took: what was grown before is not paid again."""
    seconds: float = 0.0
    grown_steps: int = 0
    """Updates that the trunk was grown by now."""
    grown_seconds: float = 0.0
    """What these took: without building, evaluation and branches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RateQuestion:
    """Which rate, and how many updates to which target."""

    device: str
    settings: Mapping[str, Any]
    """The job's own, at the batch size in question."""
    target_name: Literal["score", "loss"]
    target: float
    goal: Goal
    """Of the score, or "min" for a loss."""
    target_from: Literal["given", "measured", "forecast"] = "given"
    own_steps: int = 0
    """Updates of a run by the job's own settings at this batch size."""
    baseline_seconds: float | None = None
    """Training by the job's own settings until the target was first met; None where that was not run."""
    optimizer: Literal["sgd", "adam"]
    method: str = "auto"
    budget_seconds: float = 120.0
    num_seeds: int = 3
    fraction: float = 1.0

    @property
    def wanted(self) -> float:
        """The target as the evidence judges values: less is better."""
        return self.signed(self.target)

    def signed(self, value: float) -> float:
        """A score or loss so that less is better, and back."""
        return value if self.goal == "min" else -value

    def trunk(self, learning_rate: float, to_step: int, *, seed: int, warmup_steps: int, cooldown: float) -> GrowTrunk:
        """The request for a trunk at that rate, cooled down over a share of its updates."""
        settings = {**self.settings, "learning_rate": learning_rate, "seed": seed, "warmup_steps": warmup_steps}
        return GrowTrunk(
            device=self.device,
            settings={**settings, "schedule": "constant"},
            fraction=self.fraction,
            to_step=to_step,
            cooldown_steps=round(cooldown * to_step),
        )

    def ramp(self, more: int) -> RampRate:
        """The request for a range test with another seed."""
        settings = {**self.settings, "seed": int(self.settings["seed"]) + more, "schedule": "constant"}
        return RampRate(device=self.device, settings={**settings, "warmup_steps": 0}, fraction=self.fraction)

    def branch(self, trunk: GrowTrunk, batch_size: int, learning_rate: float, num_steps: int) -> BranchBatch:
        """The request for a branch off that trunk at another batch size."""
        return BranchBatch(
            device=self.device,
            settings=trunk.settings,
            fraction=self.fraction,
            from_step=trunk.to_step,
            batch_size=batch_size,
            learning_rate=learning_rate,
            num_steps=num_steps,
            cooldown_steps=max(1, num_steps // 2),
        )


RECORDS = (
    RecordKind(RampRate, RateRamp, "legroom.questions.rate.child:ramp_rate"),
    RecordKind(GrowTrunk, Grown, "legroom.questions.rate.child:grow_trunk"),
    RecordKind(BranchBatch, Grown, "legroom.questions.rate.child:branch_batch"),
)
QUESTION = RateQuestion
