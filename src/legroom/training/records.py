"""Training a job: what is asked of a run and what came of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from legroom.environments import Allocator, Environment, allocator_environment
from legroom.requests import Request

CHECKPOINT_NAME = "checkpoint.pt"

Reason = Literal["finished", "target", "patience", "budget", "interrupted", "diverged", "out_of_memory", "failed"]
"""The last two of a trial among several, which is marked instead of ending the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Train(Request["Trained"]):
    """Ask for a run to its target, or to its end."""

    kind: Literal["train"] = "train"
    fresh: bool = True
    """Whether it needs a process that has run nothing before, as trials that are compared do."""
    anew: bool = False
    """Whether that process is started anew, as a user's own is: forks of one share how its heap lies."""
    device: str
    settings: Mapping[str, Any]
    """The whole of `Settings`."""
    num_steps: int | None = None
    """Length of the run in updates; None takes the settings' epochs."""
    max_seconds: float | None = None
    target: tuple[Literal["loss", "score"], float] | None = None
    """What to reach on the validation data; reaching it ends the run."""
    evaluate_steps: int | None = None
    """Updates between evaluations; None evaluates after every epoch."""
    until_target: bool = False
    """Whether it tries cooldowns of a schedule `stable` on the way, and ends with the first that reaches the target."""
    patience: int | None = None
    """Evaluations without gain that end the run."""
    watch: Literal["loss", "score"] = "loss"
    """What must gain."""
    tolerance: float = 0.0
    """Share by which it must gain to count."""
    allocator: Allocator | None = None
    """Of a GPU's memory; None leaves it as the user's environment has it."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Of the environment, as a plan names them."""
    folder: str | None = None
    """Where metrics and checkpoints go; None keeps neither."""
    resume: bool = False
    checkpoint_seconds: float = 60.0
    """Time between checkpoints; each evaluation leaves one too."""
    checkpoint_steps: int | None = None
    """Updates between checkpoints, besides."""
    tensorboard: bool = False
    several: Mapping[str, Any] = field(default_factory=dict)
    """The fields of `Several`; empty where one process trains, whatever the settings say of devices."""
    identity: Mapping[str, Any] = field(default_factory=dict)
    """What the run is of: a checkpoint that differs in it is refused."""
    notes: Sequence[str] = field(default_factory=list)
    """What the answer has to say of how its settings came about."""
    again: bool = False
    """Whether it repeats a run that something else on the machine disturbed."""

    @property
    def alone(self) -> bool:
        """Whether it is no fork of another process."""
        return self.anew

    @property
    def interruptible(self) -> bool:
        """An interrupt lets it save and report before it ends, where it has a folder to save to."""
        return self.folder is not None

    @property
    def environment(self) -> Environment:
        """Variables of the process that trains."""
        return {**allocator_environment(self.device, self.allocator), **self.variables}


@dataclass(frozen=True, slots=True, kw_only=True)
class Several:
    """How several processes make up a run."""

    num_local: int
    """Processes on this machine, one for each device."""
    nodes: int = 1
    """Machines."""
    rendezvous: str = ""
    """host:port at which they meet."""
    restarts: int = 0
    """How often all processes are started anew, from the checkpoint, after one has failed."""
    sync_batch_norm: bool = False
    find_unused_parameters: bool = False
    shard: bool = False
    """Whether each process keeps a share of weights and optimizer alone (FSDP)."""
    wait_seconds: float = 240.0
    """How long processes wait for one another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """What one pass over the validation data gave, and when."""

    step: int
    epoch: float
    seconds: float
    """Since training began, earlier parts of a resumed run included."""
    loss: float | None
    score: float | None
    train_loss: float | None
    """Mean over the updates since the evaluation before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cooldown:
    """One that a run until its target tried."""

    step: int
    """Updates before it."""
    num_steps: int
    """Updates of it."""
    num_samples: int
    seconds: float
    """Training and evaluating."""
    loss: float | None
    score: float | None
    """At its end."""
    reached: bool
    """Whether that was the target. Else the run went on from where it had begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """What came of a run."""

    kind: Literal["trained"] = "trained"
    stopped_because: Reason
    num_steps: int
    num_epochs: float
    num_samples: int
    seconds: float
    """Training and evaluating, start-up left out."""
    samples_per_second: float
    """While training, evaluation left out."""
    data_wait_share: float
    """Share of training time spent waiting for batches."""
    evaluations: list[Evaluated]
    last_loss: float | None
    """Of the last update."""
    learning_rate: float
    """Of the first parameter group at the last update."""
    goal: Literal["max", "min"] | None
    """Whether a higher or a lower score is better; None without one."""
    chance: float | None = None
    """The score of a model that learned nothing, where the job says so."""
    resumed_from: int | None = None
    """The update a checkpoint let it go on from."""
    checkpoint: str | None = None
    checkpoint_step: int | None = None
    """The update after which the last good checkpoint was written."""
    stuck_at: str | None = None
    """What an interrupted run was at, where that did not end by itself and was broken off."""
    curve: Mapping[str, list[int | float]] = field(default_factory=dict)
    """Points evenly over the updates, by column: `step`, `seconds`, mean `loss` since the point before, `rate`."""
    utilisation: float | None = None
    """Share of the run in which the device worked: of a GPU as NVML says, of a CPU over all its cores."""
    peak_bytes: int | None = None
    """At most: what torch reserved of a GPU, or what the process held on the host, torch itself included."""
    failure: str | None = None
    """Why it could not be trained to an end, as a sentence."""
    cooldowns: list[Cooldown] = field(default_factory=list)
    """Those of a run until its target, in order. Updates of those that missed are not in `num_steps`."""
    notes: list[str] = field(default_factory=list)

    @property
    def last_words(self) -> str:
        """Where a run hung, and what it could save."""
        if self.stuck_at is None:
            return ""
        saved = f". All up to update {self.checkpoint_step:,} is saved; --resume goes on" if self.checkpoint else ""
        return f". It was {self.stuck_at}{saved}"


def failed_run(request: Train, reason: Literal["out_of_memory", "failed"], why: str) -> Trained:
    """The record of a trial that failed, so that it is not tried again and again."""
    return Trained(
        stopped_because=reason,
        num_steps=0,
        num_epochs=0.0,
        num_samples=0,
        seconds=0.0,
        samples_per_second=0.0,
        data_wait_share=0.0,
        evaluations=[],
        last_loss=None,
        learning_rate=float(request.settings["learning_rate"]),
        goal=None,
        failure=why,
    )
