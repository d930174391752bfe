"""What a user brings: the factories of a training run, its settings, and what its model is judged by."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from legroom.errors import JobRaised, UsageError
from legroom.setting_rules import lacks

Batch = Any
"""Any nest of tensors: a tensor, or tuples, lists and mappings of them."""

FUNCTIONS = (
    "model", "train_data", "loss", "optimizer", "scheduler", "valid_data", "collate", "sample_size", "loader", "step",
    "progress",
)  # fmt: skip
"""Fields of a Job that are functions."""
FASTER = ("channels_last", "fused", "compile", "bucket_cap_mb", "broadcast_buffers")
"""Settings that change how steps are computed, and what they compute by rounding alone."""
OWN_SCHEDULE = "own"
"""The schedule that stands for the job's own scheduler."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a run is run: what the user does today, what a plan recommends, what a proof compares."""

    batch_size: int = 32
    """Samples in one forward pass on one device."""
    accumulation_steps: int = 1
    """Forward passes whose gradients are joined into one update."""
    num_workers: int = 0
    """Loader processes for each device; 0 loads in the training process."""
    prefetch_factor: int = 2
    """Batches each loader process prepares ahead."""
    learning_rate: float = 1e-3
    """The peak rate handed to the job's optimizer."""
    schedule: str = "constant"
    """How the rate moves over the run: a name and its numbers, as "polynomial:power=2"; "own" is Job.scheduler."""
    warmup_steps: int = 0
    """Updates over which the rate climbs to its peak."""
    warmup_start: float = 0.0
    """Share of the peak at which the climb begins."""
    clip_norm: float | None = None
    """Largest gradient norm let through; None lets all through."""
    num_epochs: int = 1
    """Passes over the training data."""
    precision: str = "fp32"
    """Number format of the forward pass: fp32, or autocast to bf16 or fp16."""
    channels_last: bool = False
    """Whether images and the weights of convolutions lie in memory with the channels last."""
    fused: bool = False
    """Whether the optimizer updates all parameters in one kernel, where torch has one for it."""
    compile: bool = False
    """Whether torch.compile makes the loss's own kernels."""
    num_devices: int = 1
    """Devices that share each update."""
    bucket_cap_mb: float | None = None
    """MiB of gradients that several devices send at once; None leaves it to torch, which takes 1 and then 25."""
    broadcast_buffers: bool = True
    """Whether several devices take the first one's buffers before every forward pass."""
    model_size: str = ""
    """The model's size by a name and a value of Job.resize, as "width=64"; empty: the job's own model."""
    seed: int = 0
    """Seed of initialisation and order."""

    def __post_init__(self) -> None:
        for setting in fields(self):
            value = getattr(self, setting.name)
            if wanted := lacks(setting.name, value):
                raise UsageError(f"Settings.{setting.name} is {value!r}; it must be {wanted}")


@dataclass(frozen=True, slots=True)
class Score:
    """What a trained model is judged by: sums and counts over batches, so that uneven batches weigh right."""

    measure: Callable[[Any, Batch], tuple[Any, Any]]
    """(model, batch) -> (sum, count)."""
    goal: Literal["max", "min"] = "max"
    """Whether a higher or a lower score is better."""
    finish: Callable[[float], float] | None = None
    """Turns the mean into the score, as math.exp does for perplexity."""
    chance: float | None = None
    """The score of a model that learned nothing, where somebody knows it: one that never left it has not trained."""
    whole: bool = False
    """Whether each process of a run measures all of the data, because the sums of several cannot be joined."""

    def __post_init__(self) -> None:
        if self.goal not in ("max", "min"):
            raise UsageError(f"Score.goal is {self.goal!r}; it must be 'max' or 'min'")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLength:
    """How long a run will be: what a scheduler asks for."""

    num_steps: int | None
    """Updates of the run; None where nobody knows."""
    num_epochs: int
    batches_per_epoch: int | None
    """None where nobody knows before an epoch has been read."""
    accumulation_steps: int = 1
    """Batches joined into an update."""
    in_steps: bool = False
    """Whether the length was given in updates, not in epochs."""

    @property
    def steps_per_epoch(self) -> int | None:
        """Updates of an epoch; the last may join fewer batches."""
        return None if self.batches_per_epoch is None else -(-self.batches_per_epoch // self.accumulation_steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The factories of a training run. Every question builds fresh things from them and throws them away."""

    model: Callable[[], Any]
    """() -> nn.Module; names no device."""
    train_data: Callable[[], Any]
    """() -> Dataset, map-style or iterable."""
    loss: Callable[[Any, Batch], Any] | None = None
    """(model, batch) -> mean, or (mean, count) where batches differ in weight (tokens)."""
    optimizer: Callable[..., Any] | None = None
    """(model, learning_rate) -> Optimizer; parameter groups keep the ratio of their rates."""
    scheduler: Callable[[Any, RunLength], Any] | None = None
    """(optimizer, length) -> torch scheduler, stepped after each update; or {"scheduler": ..., "interval": "epoch",
    "frequency": 1}; or a list of these. A schedule named for a run goes before it."""
    valid_data: Callable[[], Any] | None = None
    """() -> Dataset; only questions about learning need it."""
    score: Score | None = None
    """What the trained model is judged by."""
    baseline: Settings = field(default_factory=Settings)
    """What the user runs today."""
    collate: Callable[[list[Any]], Batch] | None = None
    """list of samples -> batch; torch's own where absent."""
    num_samples: int | None = None
    """Length of an iterable data set."""
    sample_size: Callable[[Any, int], float] | None = None
    """(dataset, index) -> size of that sample in any unit, without building it: finds the longest samples."""
    resize: Mapping[str, Callable[[int], Callable[[], Any]]] = field(default_factory=dict)
    """{"width": width -> model factory, ...}: models of other sizes."""
    loader: Callable[[Any, Settings], Iterable[Batch]] | None = None
    """(dataset, settings) -> batches, for jobs that lay out their own."""
    step: Callable[[Any, Any, Batch], Any] | None = None
    """(model, optimizer, batch) -> loss, for jobs with their own update (GANs)."""
    progress: Callable[[Any, int, int], None] | None = None
    """(model, updates, epoch) -> None: told after every update of a run, for losses that depend on how far it is."""
    notes: tuple[str, ...] = ()
    """Sentences that every answer about this job carries, such as that its data is a stand-in."""

    def __post_init__(self) -> None:
        for name in FUNCTIONS:
            refuse_built("Job", name, getattr(self, name))
        for name, kind in (("score", Score), ("baseline", Settings)):
            value = getattr(self, name)
            if value is not None and not isinstance(value, kind):
                raise JobRaised(f"Job.{name} is a {type(value).__name__}; write {name}=legroom.{kind.__name__}(...)")
        if self.step is None and (self.loss is None or self.optimizer is None):
            raise JobRaised("Job has neither loss and optimizer nor a step; give the first two, or step=(...)")
        self._join_schedules()

    def make_model(self, size: str = "") -> Any:
        """A fresh model: the job's own, or by `resize` where a size is named, as "width=64"."""
        if not size:
            return self.model()
        name, _, value = size.partition("=")
        if name not in self.resize:
            known = f"its resize knows {', '.join(self.resize)}" if self.resize else "it has no resize"
            told = f'Give the Job resize={{"{name}": lambda {name}: (lambda: Model({name}))}}'
            raise UsageError(f"The model size {size} cannot be made: {known}. {told}")
        return self.resize[name](int(value))()

    def _join_schedules(self) -> None:
        """Let the baseline say that the rate moves by the job's own scheduler; refuse two answers, or none."""
        named = self.baseline.schedule
        if self.scheduler is not None and named == Settings().schedule:
            object.__setattr__(self, "baseline", replace(self.baseline, schedule=OWN_SCHEDULE))
        elif self.scheduler is not None and named != OWN_SCHEDULE:
            raise JobRaised(f"Job has a scheduler, and its baseline names the schedule {named!r}. Give one of them")
        elif self.scheduler is None and named == OWN_SCHEDULE:
            raise JobRaised("Job.baseline has the schedule 'own', which is Job.scheduler; give scheduler=(...)")


def refuse_built(whose: str, name: str, value: Any) -> None:
    """Refuse an object where a function is needed that makes one."""
    if value is not None and (not callable(value) or _is_built(value)):
        raise JobRaised(
            f"{whose}.{name} is a {type(value).__name__}; legroom needs a function that makes or computes it, "
            f"so that every question starts from a fresh one. Write {name}=lambda: ... or name a function"
        )


def _is_built(value: Any) -> bool:
    """Whether it is a module or an optimizer rather than a function or class that makes one: those are callable too."""
    return hasattr(value, "state_dict") and not isinstance(value, type)
