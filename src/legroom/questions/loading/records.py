"""How fast samples reach the device: loaders compared in turns, alone and with the step, warm and cold.

On disk, and so in the names of fields, a loader's settings are a lane, and its throughput is a rate.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from legroom.environments import UNCHANGED, Environment
from legroom.errors import NothingMeasured
from legroom.laws.loading import MOST_WORKERS
from legroom.requests import RecordKind, Request

if TYPE_CHECKING:
    from legroom.logbook import Records

What = Literal["load", "step", "together"]
"""Loader alone, step alone on batches already on the device, or both as training runs them."""
CIRCUMSTANCES = ("device", "batch_size", "precision", "seed")
"""Of a question and of its requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderSettings:
    """One way to load."""

    num_workers: int
    prefetch_factor: int = 2
    blas_threads: int | None = 1
    """Threads of numpy's BLAS in each worker; None leaves them as they are."""
    pin_memory: bool = True
    """Whether batches for a GPU are copied from page-locked memory."""


INLINE = LoaderSettings(num_workers=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareLoaders(Request["ComparedLoaders"]):
    """Ask for the throughput of each loader, measured in turn, round after round: only such medians rank settings."""

    kind: Literal["race_loaders"] = "race_loaders"
    device: str
    batch_size: int
    precision: str = "fp32"
    what: What
    lanes: tuple[LoaderSettings, ...]
    num_rounds: int = 3
    window_seconds: float = 0.4
    """Each loader's turn in a round; its workers rest while the others have theirs."""
    num_batches: int | None = None
    """Batches of a turn, where a rule counts them; as many as the window holds otherwise."""
    seed: int = 0
    patience_seconds: float = field(default=270.0, compare=False)
    """How long one batch may take before the data set counts as hung."""
    keep: bool = field(default=False, compare=False)
    """Whether the loaders stay open, their workers resting, for a comparison that follows."""

    def __post_init__(self) -> None:
        # Over a pipe settings come as mappings.
        lanes = tuple(LoaderSettings(**one) if isinstance(one, Mapping) else one for one in self.lanes)
        object.__setattr__(self, "lanes", lanes)

    @property
    def environment(self) -> Environment:
        """The user's own: loaders and threads are to run as they will in training."""
        return UNCHANGED


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderThroughput:
    """What one loader did."""

    lane: LoaderSettings
    outcome: Literal["measured", "out_of_memory", "unpicklable"] = "measured"
    reason: str = ""
    """Why it could not be measured."""
    batch_seconds: list[float] = field(default_factory=list)
    """Seconds a batch took, one value a round."""
    median_seconds: float = 0.0
    spread: float = 0.0
    """(largest - smallest) / median of the rounds."""
    has_finite_loss: bool = True
    """Whether the last loss of every turn was a number, where batches were trained on."""
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
        """Throughput by the median round."""
        return self.samples_per_batch / self.median_seconds if self.median_seconds else 0.0

    @property
    def held_bytes(self) -> int:
        """What its workers held, with the batches ahead."""
        return self.lane.num_workers * (self.worker_private_bytes + self.lane.prefetch_factor * self.batch_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedLoaders:
    """What each loader of a comparison did, in the order asked for."""

    kind: Literal["loader_rates"] = "loader_rates"
    lanes: list[LoaderThroughput]
    close_seconds: float = 0.0
    """To end workers: those that are not kept, and those kept from the comparison before that this one did not need."""

    @property
    def measured(self) -> list[LoaderThroughput]:
        """Those that ran."""
        return [one for one in self.lanes if one.outcome == "measured"]

    @property
    def failed(self) -> list[LoaderThroughput]:
        """Those that could not run here."""
        return [one for one in self.lanes if one.outcome != "measured"]

    @property
    def rounds(self) -> list[dict[LoaderSettings, float]]:
        """Samples per second of all that ran, round by round."""
        turns = zip(*(one.batch_seconds for one in self.measured), strict=False)
        return [
            {one.lane: one.samples_per_batch / seconds for one, seconds in zip(self.measured, turn, strict=True)}
            for turn in turns
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCold(Request["ColdRead"]):
    """Ask how much slower a loader is when the files behind the samples are not in the page cache."""

    kind: Literal["read_cold"] = "read_cold"
    device: str
    batch_size: int
    precision: str = "fp32"
    lane: LoaderSettings
    seed: int = 0
    patience_seconds: float = field(default=270.0, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.lane, Mapping):
            object.__setattr__(self, "lane", LoaderSettings(**self.lane))

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
    most_workers: int = MOST_WORKERS
    """More are not tried, as no job may ask for them here."""
    rule: str = "legroom"
    """Asked by: ours, or the thesis'."""
    largest_batch: int | None = None
    """What the thesis' rule may use of a batch; None: no more than the job's own."""
    seed: int = 0
    patience_seconds: float = 270.0

    def comparison(self, what: What, settings: tuple[LoaderSettings, ...], **more: Any) -> CompareLoaders:
        """The request for a comparison at the batch in question."""
        return CompareLoaders(what=what, lanes=settings, **self._shared(), **more)

    def cold_read(self, settings: LoaderSettings) -> ReadCold:
        """The request for a cold run at the batch in question."""
        return ReadCold(lane=settings, **self._shared())

    def is_about(self, request: CompareLoaders | ReadCold) -> bool:
        """Whether what the request found belongs to this question."""
        return all(getattr(request, name) == getattr(self, name) for name in CIRCUMSTANCES)

    def _shared(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in (*CIRCUMSTANCES, "patience_seconds")}


QUESTION = LoadingQuestion


def default_question(records: "Records") -> LoadingQuestion:
    """What a logbook from before that was written down must have asked; its host held at least what ran."""
    every = records.entries
    compared = [(one.run, one.request, one.result) for one in every if isinstance(one.request, CompareLoaders)]
    if not compared:
        raise NothingMeasured("The logbook compares no loaders. Run legroom loading with the same --out first")
    own = [one for one in compared if one[0] == records.head.run] or compared
    asked = [request for _, request, _ in own]
    last, cores = asked[-1], re.search(r"(\d+) cores", records.head.machine)
    by_thesis = any(request.num_batches is not None for request in asked)
    return LoadingQuestion(
        device=last.device,
        batch_size=last.batch_size,
        precision=last.precision,
        num_cores=int(cores[1]) if cores else 1,
        available_bytes=max(one.held_bytes for *_, result in compared for one in result.lanes),
        rule="thesis" if by_thesis else "legroom",
        largest_batch=last.batch_size if by_thesis else None,
        seed=last.seed,
    )


RECORDS = (
    RecordKind(CompareLoaders, ComparedLoaders, "legroom.questions.loading.child.comparison:compare_loaders"),
    RecordKind(ReadCold, ColdRead, "legroom.questions.loading.child.cold_read:read_cold"),
)
