"""How a job learns: trunks at a constant rate, and branches that cool down or change the batch."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

from legroom.environments import UNCHANGED, Environment
from legroom.requests import RecordKind, Request
from legroom.training.records import Evaluated, Reason

Learned = TypeVar("Learned")
Goal = Literal["max", "min"]
Shape = Literal["linear", "sqrt"]
Solver = Literal["own", "lars", "lamb"]
RAMP_FROM = 0.01
"""Of the job's own rate: where a ramp begins that only has to find where the loss blows up."""
RAMP_SHARE = 0.15
"""Of the budget, that one ramp may take."""
FREE = ("learning_rate", "seed", "schedule", "warmup_steps", "warmup_start", "num_epochs")
"""Settings in which trials of one question may differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnRequest(Request[Learned]):
    """What requests about learning share."""

    device: str
    settings: Mapping[str, Any]
    """The whole of `Settings`: batch size, rate, warm-up and seed of the trunk."""
    fraction: float = 1.0
    """Share of the training data that is used."""
    solver: Solver = "own"
    """The job's own optimizer, or one in its place."""
    betas: tuple[float, float] | None = None
    """Of Adam, where not as the job made it."""
    eps: float | None = None

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
    max_seconds: float | None = field(default=None, compare=False)
    """Where updates are slow, fewer of them climb as far; None: never. A ramp within another limit is the same ramp."""


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
    accumulation_steps: int = 1
    """Passes that an update of the other batch size is made of."""

    @property
    def update_size(self) -> int:
        """Samples of an update of the branch."""
        return self.batch_size * self.accumulation_steps


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTrial(LearnRequest["Trial"]):
    """Ask for a whole run by these settings, their schedule included, evaluated as it goes."""

    kind: Literal["run_trial"] = "run_trial"
    evaluate_steps: int | None = None
    """Updates between evaluations; None evaluates after every epoch."""
    max_seconds: float | None = None
    patience: int | None = None
    """Evaluations without gain that end the run."""
    watch: Literal["loss", "score"] = "loss"
    """What must gain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What came of such a run."""

    kind: Literal["trial"] = "trial"
    stopped_because: Reason
    num_steps: int
    num_samples: int
    seconds: float
    samples_per_second: float
    """While training, evaluation left out."""
    evaluations: Sequence[Evaluated]
    utilisation: float | None = None
    """Share of the time in which the device worked; of a CPU, of the threads that torch may use."""
    data_wait_share: float | None = None
    """Share of training time spent waiting for batches; None in records of before."""


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
    noise_sizes: tuple[int, int] | None = None
    """Samples of the passes and of the updates whose gradients were looked at; None where none were."""
    small_squares: Sequence[float] = ()
    """Squares of the gradients of first passes, an update in eight of those grown now."""
    big_squares: Sequence[float] = ()
    """Squares of the whole gradients of the same updates."""
    failure: str | None = None
    """Why a branch could not be trained to its end, as a sentence: memory, or an error of the job at that batch."""


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
    target_from: Literal["given", "measured", "forecast", "begun", "reached"] = "given"
    target_range: tuple[float, float] | None = None
    """Between which the job's own settings come out: over seeds, or by several forecasts; None of a target given."""
    own_steps: int = 0
    """Updates of a run by the job's own settings at this batch size."""
    ramp_steps: int = 100
    """Updates of a ramp over all rates."""
    baseline_seconds: float | None = None
    """Training by the job's own settings until the target was first met; None where that was not run."""
    optimizer: Literal["sgd", "adam"]
    method: str = "auto"
    batch_sizes: tuple[int, ...] = ()
    """Of `greedy`, to choose among; empty where the size is named."""
    known: Mapping[str, Any] = field(default_factory=dict)
    """Of `transfer`: settings at the batch size whose rate is known to be good."""
    rule: str = "measured"
    """Of `transfer`: the rule that carries the rate."""
    compares: bool = False
    """Of `transfer`: whether all rules are run side by side."""
    budget_seconds: float = 120.0
    most_warmup: int | None = None
    """Updates of a warm-up of the search's own accord, at most: the budget has to last for what follows it."""
    own_seconds: float | None = None
    """What runs by the job's own settings may take beside the budget; None: a share of the budget."""
    num_seeds: int = 3
    fraction: float = 1.0

    @property
    def wanted(self) -> float:
        """The target as the evidence judges values: less is better."""
        return self.signed(self.target)

    def signed(self, value: float) -> float:
        """A score or loss so that less is better, and back."""
        return value if self.goal == "min" else -value

    @property
    def update_size(self) -> int:
        """Samples of an update."""
        return update_size(self.settings)

    @property
    def seed(self) -> int:
        """The search's own; others confirm it."""
        return int(self.settings["seed"])

    def at_known(self) -> "RateQuestion":
        """The same question at the batch size whose rate is known."""
        factor = self.update_size / update_size(self.known)
        return replace(self, settings=self.known, known={}, own_steps=round(self.own_steps * factor))

    def on_all_data(self) -> "RateQuestion":
        """The same question of all of the data."""
        return replace(self, fraction=1.0)

    def covers(self, request: LearnRequest[Any]) -> bool:
        """Whether a trial differs from what is asked in rate, seed and schedule at most."""
        mine, other = ({k: v for k, v in each.settings.items() if k not in FREE} for each in (self, request))
        same = (request.device, request.fraction, request.solver, request.betas)
        return mine == other and same == (self.device, self.fraction, "own", None)

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
        settings = {**self.settings, "seed": self.seed + more, "schedule": "constant", "warmup_steps": 0}
        limit = RAMP_SHARE * self.budget_seconds
        return RampRate(
            device=self.device,
            settings=settings,
            fraction=self.fraction,
            num_steps=self.ramp_steps,
            max_seconds=limit,
        )

    def upper_ramp(self, more: int) -> RampRate:
        """The request for the end of a range test, from far below the job's own rate on, no less steep than a whole.

        The whole of it where that is asked for, or the job's own rate leaves no end.
        """
        whole, least = self.ramp(more), RAMP_FROM * float(self.settings["learning_rate"])
        if self.method == "range" or not whole.least_rate < least < whole.most_rate:
            return whole
        share = math.log(whole.most_rate / least) / math.log(whole.most_rate / whole.least_rate)
        return replace(whole, least_rate=least, num_steps=1 + round(share * (whole.num_steps - 1)))

    def branch(self, trunk: GrowTrunk, size: int, learning_rate: float, num_steps: int) -> BranchBatch:
        """The request for a branch off that trunk whose updates have another size."""
        batch_size, passes = passes_of(size, int(self.settings["batch_size"]), whole=self._fits_whole)
        return BranchBatch(
            device=self.device,
            settings=trunk.settings,
            fraction=self.fraction,
            from_step=trunk.to_step,
            batch_size=batch_size,
            accumulation_steps=passes,
            learning_rate=learning_rate,
            num_steps=num_steps,
            cooldown_steps=max(1, num_steps // 2),
        )

    @property
    def _fits_whole(self) -> bool:
        """Whether larger batches are passed whole: on a GPU, and in jobs that accumulate, they may not fit."""
        return self.device == "cpu" and int(self.settings["accumulation_steps"]) == 1


def update_size(settings: Mapping[str, Any]) -> int:
    """Samples of an update by those settings."""
    return int(settings["batch_size"]) * int(settings.get("accumulation_steps", 1))


def passes_of(size: int, most: int, *, whole: bool = False) -> tuple[int, int]:
    """Batch size and passes of an update: as few passes as go without remainder, none larger than the most.

    >>> passes_of(512, 32), passes_of(48, 32), passes_of(8, 32), passes_of(512, 32, whole=True)
    ((32, 16), (24, 2), (8, 1), (512, 1))
    """
    passes = 1 if whole else next(each for each in range(-(-size // most), size + 1) if size % each == 0)
    return size // passes, passes


RECORDS = (
    RecordKind(RampRate, RateRamp, "legroom.questions.rate.child:ramp_rate"),
    RecordKind(GrowTrunk, Grown, "legroom.questions.rate.child:grow_trunk"),
    RecordKind(RunTrial, Trial, "legroom.questions.rate.child:run_trial"),
    RecordKind(BranchBatch, Grown, "legroom.questions.rate.child:branch_batch"),
)
QUESTION = RateQuestion
