"""How a job learns at other sizes: parameters by width or depth, and trials on a share of the data."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from legroom.environments import UNCHANGED, Environment
from legroom.requests import RecordKind, Request

Dimension = Literal["width", "depth"]
RateRule = Literal["fixed", "mup"]
Solver = Literal["own", "sgd", "adam"]
USUAL_RATES: Mapping[Solver, float] = {"sgd": 0.1, "adam": 1e-3}
"""Of an optimizer that is not the job's own, where both are compared."""
RATE_FACTORS = (1.0, 0.3, 3.0)
"""On that rate: at the smallest size all are tried, and the one that comes to the lowest loss is taken."""


LEAST_LEFT = 3
"""Sizes in the fit, where the largest was never run and another is held out in its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountSizes(Request["SizesCounted"]):
    """Ask how many parameters the job's model has at each value, and at which value it is the job's own."""

    kind: Literal["count_sizes"] = "count_sizes"
    vary: Dimension
    values: list[int] = field(default_factory=list)
    skips: bool = False
    """Whether values that the job refuses are left out instead of ending the question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizesCounted:
    """The parameters of models of other sizes."""

    kind: Literal["sizes_counted"] = "sizes_counted"
    names: list[str]
    """What the job can vary: the names in Job.resize."""
    own: int | None
    """The value at which the model has as many parameters as the job's own; None where none was found."""
    num_parameters: list[int]
    """At each value asked for, refused ones left out."""
    refused: list[int] = field(default_factory=list)
    """Values at which the job cannot make a model."""
    why: str = ""
    """What the job raised where it made no model, asked for or met in the search for its own; empty where the last
    value tried gave one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainSize(Request["SizeTrained"]):
    """Ask for a trial at a constant rate until its validation loss has settled."""

    kind: Literal["train_size"] = "train_size"
    device: str
    settings: Mapping[str, Any]
    """The whole of `Settings`: batch, rate and seed."""
    vary: Dimension
    value: int
    fraction: float
    """Share of the training data that is used."""
    rate_rule: RateRule = "fixed"
    base_value: int
    """Where the rate holds as it is: `mup` scales it from there."""
    solver: Solver = "own"
    cools: bool = False
    """Whether copies leave the trial at growing lengths, cool down and are evaluated."""
    max_seconds: float = field(default=60.0, compare=False)
    """After which it ends unsettled. A trial that settled within another limit is the same trial."""
    most_seconds: float = field(default=0.0, compare=False)
    """That the budget had left for it, of which it was given less where it should have been done sooner."""

    @property
    def fresh(self) -> bool:
        """Each has a process of its own: what one does, memory and all, is not left to the next."""
        return True

    @property
    def environment(self) -> Environment:
        """The user's own."""
        return UNCHANGED

    def on_out_of_memory(self) -> "SizeTrained":
        """The model does not fit."""
        return SizeTrained(outcome="out_of_memory")


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeTrained:
    """What a trial saw."""

    kind: Literal["size_trained"] = "size_trained"
    outcome: Literal["settled", "unsettled", "only_rose", "diverged", "out_of_memory", "failed"]
    """Unsettled: the time was over before the minimum of the loss was sure, which may lie further on. Only rose: the
    loss never fell, so nothing was learned that holds for other data."""
    why: str = ""
    """Of one that failed: what its code raised, or how its process ended."""
    left_chance: bool | None = None
    """Whether it scored better than a model that learned nothing; None where nobody knows how such a one does."""
    steps: list[int] = field(default_factory=list)
    """Updates at which it was evaluated."""
    losses: list[float] = field(default_factory=list)
    """On the validation data there."""
    cooled_steps: list[int] = field(default_factory=list)
    """Lengths of runs that cool down at their end."""
    cooled_losses: list[float] = field(default_factory=list)
    num_parameters: int = 0
    num_samples: int = 0
    """Of the part of the training data it had."""
    step_seconds: float = 0.0
    """Of an update, the median."""
    peak_bytes: int = 0
    """Of the process on a CPU, on a GPU what torch took from the card; before any copy cooled down."""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeQuestion:
    """Which sizes, on how much data, judged by what."""

    device: str
    settings: Mapping[str, Any]
    vary: Dimension
    values: Sequence[int]
    own_value: int | None
    """The job's own; None where nobody knows."""
    num_parameters: Sequence[int]
    """At each value."""
    fractions: Sequence[float]
    """Shares of the data that the fit rests on, the whole left out where there are others."""
    num_samples: int
    rate_rule: RateRule = "fixed"
    num_seeds: int = 3
    budget_seconds: float = 180.0
    target_loss: float | None = None
    """Wanted; None: what the job's own size reaches."""
    within_seconds: float | None = None
    """For the best loss within a time; None: half of what the recommended size takes to the target."""
    compares_solvers: bool = False
    own_solver: Solver = "own"
    """Which of the two that are compared is the job's own optimizer; "own" where it is neither."""
    memory_bytes: int = 0
    """That torch may take of the device; 0 where nobody knows."""
    refused_values: Sequence[int] = ()
    """Of the usual ones: the job cannot make a model there."""

    @property
    def held_value(self) -> int | None:
        """The largest, held out of the fit where two or more others are left."""
        return max(self.values) if len(self.values) > 2 else None

    @property
    def holds_out_whole(self) -> bool:
        """Whether the whole data is held out of the fit."""
        return 1.0 not in self.fractions

    @property
    def base_value(self) -> int:
        """Where the rate holds as it is."""
        return self.own_value or max(self.values)

    def rate_of(self, solver: Solver, factor: float) -> float:
        """That the optimizer trains at: the job's own, or the usual one times the factor."""
        return factor * USUAL_RATES.get(solver, float(self.settings["learning_rate"]))

    def held_of(self, ran: Collection[int]) -> int | None:
        """The largest; where that did not run, the largest that did, if three others are left."""
        if self.held_value is None or self.held_value in ran:
            return self.held_value
        return max(ran) if len(ran) > LEAST_LEFT else None

    def is_held_out(self, value: int, fraction: float) -> bool:
        """Whether a trial there scores the fit instead of taking part in it, if the largest size runs."""
        return value == self.held_value or (fraction == 1.0 and self.holds_out_whole)

    def trial(
        self,
        value: int,
        fraction: float,
        more: int,
        max_seconds: float,
        solver: Solver = "own",
        rate_factor: float = 1.0,
    ) -> TrainSize:
        """The request for one trial; `more` is added to the seed, and the rate multiplied by the factor."""
        settings = {**self.settings, "seed": int(self.settings["seed"]) + more, "schedule": "constant"}
        settings["learning_rate"] = self.rate_of(solver, rate_factor)
        return TrainSize(
            device=self.device,
            settings=settings,
            vary=self.vary,
            value=value,
            fraction=fraction,
            rate_rule=self.rate_rule,
            base_value=self.base_value,
            solver=solver,
            cools=more == 0 and solver == "own",
            max_seconds=max_seconds,
            most_seconds=max_seconds,
        )


RECORDS = (
    RecordKind(CountSizes, SizesCounted, "legroom.questions.size.child.sizes:count_sizes"),
    RecordKind(TrainSize, SizeTrained, "legroom.questions.size.child.trial:train_size"),
)
QUESTION = SizeQuestion
