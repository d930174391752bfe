"""How long a step takes at each batch size, and how busy the device is meanwhile."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from legroom.environments import PASSIVE_THREADS, REUSE_MALLOC, UNCHANGED, Environment
from legroom.errors import NothingMeasured
from legroom.laws.memory import LARGEST_BATCH
from legroom.logbook import Entry, Records
from legroom.questions.memory.records import PhasePeaks, StepPeaks
from legroom.requests import JobDescription, RecordKind, Request

LOOK_SECONDS = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSteps(Request["StepTimes"]):
    """Ask for the seconds of a training step at several batch sizes, timed in rounds over all of them."""

    kind: Literal["time_steps"] = "time_steps"
    device: str
    batch_sizes: tuple[int, ...]
    precision: str = "fp32"
    seconds: float = 15.0
    """When the rounds end, whatever the intervals are by then."""
    min_rounds: int = 5
    """Rounds made even if that takes longer."""
    close: bool = False
    """Look at each size in detail as well: shares of the phases, and how busy the device is."""
    keeps_memory: bool = False
    """On a CPU: in a process whose malloc reuses what a step frees for the next one."""
    passive_threads: bool = False
    """On a CPU: in a process whose idle threads sleep."""
    num_threads: int | None = None
    """On a CPU: threads of the process; None leaves the user's own number."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the step in place of the job's own, of job.FASTER."""
    run: int = 0
    """Above 0, the number of a fresh process that times each size once, from the smallest on; 0 means rounds.

    On a CPU a size is faster after a larger one, because glibc keeps more memory from then on, and two processes differ
    by more than two visits of one. So a process times in rising order, and several processes tell the spread.
    """
    seed: int = 0

    @property
    def fresh(self) -> bool:
        """Whether it needs a process that has run nothing before."""
        return self.run > 0

    @property
    def alone(self) -> bool:
        """On a CPU how the heap lies decides how often malloc gives memory back and fetches it anew.

        Forks of one process have it alike: every fork of one took 8 page faults a step, of another 1,037 (11 % more
        core seconds); processes started anew took 390 to 1,760. A run of the user's is one of these.
        """
        return self.device == "cpu"

    @property
    def environment(self) -> Environment:
        """Variables of the process that answers: the user's own, but for the setting that is tried."""
        threads = {} if self.num_threads is None else {"OMP_NUM_THREADS": str(self.num_threads)}
        malloc = REUSE_MALLOC if self.keeps_memory else UNCHANGED
        return {**malloc, **(PASSIVE_THREADS if self.passive_threads else UNCHANGED), **threads}

    @property
    def is_plain(self) -> bool:
        """Whether it runs in the user's own environment."""
        return not self.environment


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceLoad:
    """How busy a device was while steps of one size ran."""

    utilisation: float | None = None
    """On a GPU NVML's: share of time in which any kernel ran. On a CPU: core-seconds used / cores and seconds there."""
    memory_utilisation: float | None = None
    """NVML's: share of time in which device memory was read or written."""
    watts: float | None = None
    joules_per_sample: float | None = None
    clock_hertz: float | None = None
    """Mean clock of the multiprocessors."""
    throttled: bool = False
    """Whether heat or power slowed the device down."""
    num_readings: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """Seconds of a step at one batch size."""

    batch_size: int
    outcome: Literal["measured", "out_of_memory", "no_batch", "raised"] = "measured"
    median_seconds: float = 0.0
    """Median over rounds, or mean over processes; the batch already lies on the device, so loading is no part of it."""
    interval: tuple[float, float] = (0.0, 0.0)
    """Between which the median lies at 95 %, or the mean of another run of the command at 90 %."""
    process_spread: float = 0.0
    """Of that half interval, as a share, what differs between processes of the same minutes; 0 where it is all."""
    device_seconds: float = 0.0
    """What the device alone needs, without waiting for launches; 0 where unknown, as on a CPU."""
    host_seconds: float = 0.0
    """What the host alone needs to launch a step; 0 where unknown."""
    num_rounds: int = 0
    num_repeats: int = 0
    """Steps timed over all rounds."""
    peak_bytes: int = 0
    available_bytes: int = 0
    """What the job could have had of the device's memory."""
    system_share: float = 0.0
    """Of the core seconds, those of the operating system, on a CPU: mostly memory freed and fetched anew."""
    has_finite_loss: bool = True
    """Whether the last loss was a number; steps are timed with the job's own rate, on few batches again and again."""
    shares: Mapping[str, float] = field(default_factory=dict)
    """Share of forward, backward and update in a step; empty where nobody looked."""
    load: DeviceLoad = field(default_factory=DeviceLoad)

    @property
    def samples_per_second(self) -> float:
        """Throughput by the median."""
        return self.batch_size / self.median_seconds if self.median_seconds else 0.0

    @property
    def spread(self) -> float:
        """Half the interval, as a share of the median."""
        low, high = self.interval
        return (high - low) / 2 / self.median_seconds if self.median_seconds else 0.0

    @property
    def noise(self) -> float:
        """By which share sizes of one run differ by chance: the minutes were the same."""
        return self.process_spread or self.spread


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTimes:
    """Seconds of a step at each of the sizes asked for."""

    kind: Literal["step_times"] = "step_times"
    points: list[StepTime]
    flops_per_sample: float = 0.0
    """Floating-point operations of a step for each sample; 0 where nobody counted or nothing could be counted."""
    uncounted: list[str] = field(default_factory=list)
    """Operators whose work the count leaves out."""
    not_measured: list[str] = field(default_factory=list)
    """Sentences about what could not be read here; where the job raised an error, what it said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurePadding(Request["PaddingSeen"]):
    """Ask how much of a batch is padding, for batches drawn at random and for batches of like length."""

    kind: Literal["measure_padding"] = "measure_padding"
    batch_size: int
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PaddingSeen:
    """Bytes of the same samples, laid out in batches in three ways."""

    kind: Literal["padding_seen"] = "padding_seen"
    num_samples: int
    sample_bytes: int
    """Without any padding: collated, each with samples as long as itself."""
    shuffled_bytes: int
    """In batches drawn at random."""
    bucketed_bytes: int
    """In batches of neighbours by length."""
    budget_bytes: int
    """In batches filled up to a budget of bytes, neighbours by length."""
    num_places: int = 0
    """Elements of the tensors that grow with a sample's length, without padding; 0 where none grows."""
    num_shuffled_places: int = 0
    """Of the same tensors, in batches drawn at random."""

    @property
    def share(self) -> float:
        """Of the places in a random batch, those that hold padding; of its bytes where nobody counted places."""
        if self.num_shuffled_places:
            return 1 - self.num_places / self.num_shuffled_places
        return 1 - self.sample_bytes / self.shuffled_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedQuestion:
    """How fast steps are, of what and where."""

    device: str
    precision: str
    batch_sizes: tuple[int, ...] = ()
    """Sizes the user named; empty where legroom chooses."""
    seconds: float = 20.0
    """For all rounds together."""
    rule: Literal["throughput", "utilisation"] = "throughput"
    share: float = 0.9
    """Of the best throughput or utilisation, that the recommended batch must reach."""
    ceiling: int = LARGEST_BATCH
    """The size above which none is tried."""
    ceiling_because: str = f"batches above {LARGEST_BATCH:,} are not tried"
    quick: bool = False
    """Whether first looks are enough: a few steps at each size, in one process, and no detail."""
    passing: int = 0
    """The job's own size, where it and every power of two are looked at on the way up, as nothing is timed after that:
    on a CPU a size is faster after a larger one, and holds its heap. 0: a few sizes, as the rest is timed closely."""
    seed: int = 0

    def request(self, sizes: tuple[int, ...], **more: Any) -> TimeSteps:
        """The request that times these sizes."""
        plain = TimeSteps(device=self.device, batch_sizes=sizes, precision=self.precision, seed=self.seed)
        return replace(plain, **more)

    def look(self, size: int) -> TimeSteps:
        """The request of a first look at one size."""
        return self.request((size,), seconds=LOOK_SECONDS, min_rounds=1)

    def below(self, description: JobDescription, known: Iterable[Entry]) -> "SpeedQuestion":
        """The same up to what the data, the job's loader and a proof of `legroom memory` among the entries allow."""
        limits = [(self.ceiling, self.ceiling_because)]
        if description.num_samples is not None:
            limits.append((description.num_samples, f"the data set has {description.num_samples:,} samples"))
        if description.widest_batch is not None:
            limits.append((description.widest_batch, "the job's own loader gives no larger batch"))
        if proved := max(map(self._proved, known), default=0):
            limits.append((proved, f"{proved:,} is the largest batch proved to fit"))
        ceiling, because = min(limits)
        return replace(self, ceiling=ceiling, ceiling_because=because)

    def _proved(self, entry: Entry) -> int:
        """The batch that the entry proves to fit; 0 where it proves none."""
        asked, seen = entry.request, entry.result
        if not (isinstance(asked, StepPeaks) and isinstance(seen, PhasePeaks)):
            return 0
        same = (asked.device, asked.precision, asked.accumulation_steps) == (self.device, self.precision, 1)
        bounds = asked.proof and not (asked.is_most or asked.options or asked.variables)
        return asked.batch_size if same and bounds and seen.outcome == "measured" else 0


QUESTION = SpeedQuestion


def default_question(records: Records) -> SpeedQuestion:
    """What a run asked whose logbook does not say: every size looked at, the sizes timed, and the usual rule."""
    asked = [entry.request for entry in records.entries if isinstance(entry.request, TimeSteps)]
    timed = next((request for request in reversed(asked) if request.close), None)
    if timed is None:
        raise NothingMeasured("The logbook holds no timings. Run legroom speed with the same --out first")
    num_runs = max(request.run for request in asked if request.batch_sizes == timed.batch_sizes)
    question = SpeedQuestion(
        device=timed.device,
        precision=timed.precision,
        batch_sizes=() if (1,) in {request.batch_sizes for request in asked} else timed.batch_sizes,
        seconds=timed.seconds * max(1, num_runs),
        seed=timed.seed,
    )
    return question.below(records.description(), records.entries)


RECORDS = (
    RecordKind(TimeSteps, StepTimes, "legroom.questions.speed.child.steps:time_steps"),
    RecordKind(MeasurePadding, PaddingSeen, "legroom.questions.speed.child.padding:measure_padding"),
)
