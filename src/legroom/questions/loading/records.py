"""How fast samples reach the device: loaders raced against each other, alone and with the step, warm and cold."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from legroom.environments import UNCHANGED, Environment
from legroom.requests import RecordKind, Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One way to load."""

    num_workers: int
    prefetch_factor: int = 2
    blas_threads: int | None = 1
    """Threads of numpy's BLAS in each worker; None leaves them as they are."""
    pin_memory: bool = True
    """Whether batches for a GPU are copied from page-locked memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceLoaders(Request["LoaderRates"]):
    """Ask for the rate of each lane, measured in turn, round after round: only such medians rank settings."""

    kind: Literal["race_loaders"] = "race_loaders"
    device: str
    batch_size: int
    precision: str = "fp32"
    what: Literal["load", "step", "together"]
    """Loader alone, step alone on batches already on the device, or both as training runs them."""
    lanes: tuple[Lane, ...]
    num_rounds: int = 3
    window_seconds: float = 0.4
    """Each lane's turn in a round; its workers rest while the others have theirs."""
    num_batches: int | None = None
    """Batches of a turn, where a rule counts them; as many as the window holds otherwise."""
    seed: int = 0
    patience_seconds: float = field(default=270.0, compare=False)
    """How long one batch may take before the data set counts as hung."""
    keep: bool = field(default=False, compare=False)
    """Whether the lanes stay open, their workers resting, for a race that follows."""

    def __post_init__(self) -> None:
        # Over a pipe lanes come as mappings.
        lanes = tuple(Lane(**lane) if isinstance(lane, Mapping) else lane for lane in self.lanes)
        object.__setattr__(self, "lanes", lanes)

    @property
    def environment(self) -> Environment:
        """The user's own: loaders and threads are to run as they will in training."""
        return UNCHANGED


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneRate:
    """What one lane did."""

    lane: Lane
    outcome: Literal["measured", "out_of_memory", "unpicklable"] = "measured"
    reason: str = ""
    """Why it could not be measured."""
    batch_seconds: list[float] = field(default_factory=list)
    """Seconds a batch took, one value a round."""
    median_seconds: float = 0.0
    spread: float = 0.0
    """(largest - smallest) / median of the rounds."""
    num_batches: int = 0
    samples_per_batch: float = 0.0
    batch_bytes: int = 0
    wait_seconds: float = 0.0
    """Of a batch's seconds, those the training process spent waiting for it."""
    main_cpu_seconds: float = 0.0
    """Core seconds of the training process for each batch, all its threads together: one pins what workers send."""
    main_thread_seconds: float = 0.0
    """Of them, those of the thread that trains: nothing else of it happens meanwhile. Not read of the step alone."""
    worker_cpu_seconds: float = 0.0
    """Core seconds of all workers together for each batch."""
    start_seconds: float = 0.0
    """From asking for the loader to its first batch; of the step alone, from building it to its third step."""
    turn_seconds: float = 0.0
    """Of all turns together, with the batches that were used up before each."""
    copy_seconds: float = 0.0
    """Copy of a batch to the device, where that was measured."""
    num_processes: int = 0
    """Workers that really ran: a job's own loader may start others than it was asked for."""
    worker_private_bytes: int = 0
    """Memory that one worker shares with nobody; the largest of them."""
    worker_resident_bytes: int = 0
    repeats_samples: bool = False
    """Whether workers of an iterable data set gave the same samples, each of them all."""

    @property
    def samples_per_second(self) -> float:
        """Rate by the median round."""
        return self.samples_per_batch / self.median_seconds if self.median_seconds else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderRates:
    """The race's results, in the order of its lanes."""

    kind: Literal["loader_rates"] = "loader_rates"
    lanes: list[LaneRate]
    close_seconds: float = 0.0
    """To end workers: those that are not kept, and those kept from the race before which this one did not need."""

    @property
    def rounds(self) -> list[dict[Lane, float]]:
        """Samples per second of all lanes that ran, round by round."""
        ran = [rate for rate in self.lanes if rate.outcome == "measured"]
        turns = zip(*(rate.batch_seconds for rate in ran), strict=False)
        return [
            {rate.lane: rate.samples_per_batch / one for rate, one in zip(ran, turn, strict=True)} for turn in turns
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCold(Request["ColdRead"]):
    """Ask how much slower a lane is when the files behind the samples are not in the page cache."""

    kind: Literal["read_cold"] = "read_cold"
    device: str
    batch_size: int
    precision: str = "fp32"
    lane: Lane
    seed: int = 0
    patience_seconds: float = field(default=270.0, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.lane, Mapping):
            object.__setattr__(self, "lane", Lane(**self.lane))

    @property
    def environment(self) -> Environment:
        """The user's own: loaders and threads are to run as they will in training."""
        return UNCHANGED


@dataclass(frozen=True, slots=True, kw_only=True)
class ColdRead:
    """The same samples with their files in the page cache, and dropped from it."""

    kind: Literal["cold_read"] = "cold_read"
    num_files: int = 0
    num_samples: int = 0
    warm_batch_seconds: float = 0.0
    cold_batch_seconds: float = 0.0
    bytes_per_sample: float = 0.0
    """Read from storage."""
    bytes_per_second: float = 0.0
    """Storage bandwidth reached in the cold run."""
    not_measured: str = ""
    """Why storage was not measured, as a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadingQuestion:
    """How many workers, for which batch and where."""

    device: str
    batch_size: int
    precision: str
    num_devices: int = 1
    num_cores: int = 1
    available_bytes: int = 0
    """Host memory that can be taken now."""
    shm_bytes: int | None = None
    """Free bytes of /dev/shm; None where there is none."""
    seed: int = 0
    patience_seconds: float = 270.0

    def race(
        self,
        what: Literal["load", "step", "together"],
        lanes: tuple[Lane, ...],
        *,
        num_rounds: int = 3,
        window_seconds: float = 0.4,
        keep: bool = False,
    ) -> RaceLoaders:
        """The request for a race at the batch in question."""
        return RaceLoaders(
            device=self.device,
            batch_size=self.batch_size,
            precision=self.precision,
            what=what,
            lanes=lanes,
            num_rounds=num_rounds,
            window_seconds=window_seconds,
            keep=keep,
            seed=self.seed,
            patience_seconds=self.patience_seconds,
        )


RECORDS = (
    RecordKind(RaceLoaders, LoaderRates, "legroom.questions.loading.child.loader_race:race_loaders"),
    RecordKind(ReadCold, ColdRead, "legroom.questions.loading.child.cold_read:read_cold"),
)
