"""What `variants` asks of a child: steps of two kinds timed in turn, and the losses of a short training."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from legroom.environments import UNCHANGED, Environment
from legroom.requests import RecordKind, Request

VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "channels_last": {"channels_last": True},
    "bf16": {"precision": "bf16"},
    "fused": {"fused": True},
    "compile": {"compile": True},
}
"""What each changes of the settings, in the order in which they are tried: the dearest last."""
NUM_SEEDS = 3
BLOWN_UP = 1e30
"""The loss of an update that has none."""
Names = tuple[str, ...]


def changes_of(names: Names) -> dict[str, Any]:
    """What several variants together change of the settings.

    >>> changes_of(("bf16", "fused"))
    {'precision': 'bf16', 'fused': True}
    """
    return {name: value for variant in names for name, value in VARIANTS[variant].items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeVariant(Request["VariantTimed"]):
    """Ask how long an update takes by some settings and by those with a change, in turns on the same batches."""

    kind: Literal["time_variant"] = "time_variant"
    device: str
    settings: Mapping[str, Any]
    """The whole of `Settings`, without the change."""
    changes: Mapping[str, Any]
    seconds: float = 3.0
    """For the turns of both."""
    limit_seconds: float = 120.0
    """For the first update with the change: one that takes longer, as compiling may, is given up."""
    look: int = 0
    """Which look it is: what one leaves open, another may settle."""

    @property
    def environment(self) -> Environment:
        """The user's own."""
        return UNCHANGED

    def on_out_of_memory(self) -> "VariantTimed":
        """Two models at once may be too much where one is not."""
        return VariantTimed(outcome="out_of_memory", why="both models at once ran out of memory")


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantTimed:
    """Seconds of an update without and with the change, a pair for each turn."""

    kind: Literal["variant_timed"] = "variant_timed"
    outcome: Literal["measured", "impossible", "failed", "too_long", "out_of_memory"] = "measured"
    """`impossible`: known before anything ran; `failed`: it raised."""
    why: str = ""
    """Of an outcome other than measured, as a clause."""
    own_seconds: Sequence[float] = ()
    variant_seconds: Sequence[float] = ()
    start_seconds: float = 0.0
    """What the variant's first update, and its first evaluations where it compiles, took longer than the own ones."""
    own_peak_bytes: int = 0
    """Of a GPU's memory while these updates ran; 0 elsewhere."""
    variant_peak_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainVariant(Request["VariantLosses"]):
    """Ask for the losses of the first updates of a training with a change; without one, `changes` is empty."""

    kind: Literal["train_variant"] = "train_variant"
    device: str
    settings: Mapping[str, Any]
    """The whole of `Settings`, without the change. Its seed says initialisation and order."""
    changes: Mapping[str, Any]
    num_steps: int

    @property
    def environment(self) -> Environment:
        """The user's own."""
        return UNCHANGED

    def on_out_of_memory(self) -> "VariantLosses | None":
        """Of a change it means that it cannot be trained with; of the job's own settings it is an error."""
        return VariantLosses(losses=[BLOWN_UP], why="it ran out of memory") if self.changes else None


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantLosses:
    """The loss of each update's own batch; a training that failed, or is no more a number, ends with BLOWN_UP."""

    kind: Literal["variant_losses"] = "variant_losses"
    losses: Sequence[float]
    why: str = ""
    """Why it failed, as a clause; empty where it did not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantsQuestion:
    """Which of these variants pay for a run by these settings?"""

    device: str
    settings: Mapping[str, Any]
    """By which the run would be made without any of them."""
    names: Sequence[str] = tuple(VARIANTS)
    """Of VARIANTS: those to try."""
    num_steps: int | None = None
    """Updates of the run; None where nobody knows."""
    budget_seconds: float = 120.0
    skipped: Mapping[str, str] = field(default_factory=dict)
    """Variants, or several joined by " + ", that were not tried after all, and why, as a clause."""

    def time(self, names: Names, seconds: float, limit_seconds: float, look: int) -> TimeVariant:
        """The request that times these variants together."""
        return TimeVariant(
            device=self.device,
            settings=self.settings,
            changes=changes_of(names),
            seconds=seconds,
            limit_seconds=limit_seconds,
            look=look,
        )

    def train(self, names: Names, more: int, num_steps: int) -> TrainVariant:
        """The request for the losses of these variants with another seed."""
        seed = int(self.settings["seed"]) + more
        settings = {**self.settings, "seed": seed, "schedule": "constant", "num_workers": 0}
        return TrainVariant(device=self.device, settings=settings, changes=changes_of(names), num_steps=num_steps)


QUESTION = VariantsQuestion
RECORDS = (
    RecordKind(TimeVariant, VariantTimed, "legroom.questions.variants.child.turns:time_variant"),
    RecordKind(TrainVariant, VariantLosses, "legroom.questions.variants.child.turns:train_variant"),
)
