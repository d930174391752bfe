"""What `devices` asks of a child: the backward pass of one device, and steps of several that share each update."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from legroom.environments import UNCHANGED, Environment
from legroom.requests import RecordKind, Request

Scaling = Literal["strong", "weak"]
MESSAGE_BYTES = tuple(4**power for power in range(5, 13))
"""1 KiB to 16 MiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeBackward(Request["BackwardTimes"]):
    """Ask when each gradient of a step on one device is ready, and what else crosses the wire with several."""

    kind: Literal["time_backward"] = "time_backward"
    device: str
    batch_size: int
    precision: str
    num_threads: int
    """Of the process, where the device is a CPU."""
    seed: int = 0

    @property
    def environment(self) -> Environment:
        """The user's own."""
        return UNCHANGED

    def on_out_of_memory(self) -> "BackwardTimes":
        """A batch that ends its process is one that does not fit."""
        return BackwardTimes(outcome="out_of_memory")


@dataclass(frozen=True, slots=True, kw_only=True)
class BackwardTimes:
    """Medians over steps of one batch size, and what the model is made of."""

    kind: Literal["backward_times"] = "backward_times"
    outcome: Literal["measured", "out_of_memory"] = "measured"
    forward_seconds: float = 0.0
    backward_seconds: float = 0.0
    update_seconds: float = 0.0
    spread: float = 1.0
    """By which factor another median of the step may be off."""
    num_repeats: int = 0
    utilisation: float | None = None
    """Share of its cores that the process used; None where the device is no CPU."""
    gradient_bytes: Sequence[int] = ()
    """Of each parameter, in the order in which gradients are ready."""
    ready_seconds: Sequence[float] = ()
    """When each is, since the start of the backward pass."""
    copy_bytes_per_second: float = 0.0
    """Pace at which gradients are copied into buckets and back."""
    buffer_bytes: int = 0
    num_buffer_messages: int = 0
    """Kinds of numbers among the buffers: each kind is broadcast by itself."""
    norm_features: Sequence[int] = ()
    """Features of each BatchNorm layer."""
    other_buffers: Sequence[str] = ()
    """Buffers that steps changed and that are no BatchNorm's."""
    num_watched: int = 1
    """Steps over which that was watched."""
    unused_parameters: Sequence[str] = ()
    """Trainable parameters that got no gradient."""
    parameter_bytes: int = 0
    state_bytes: int = 0
    """Of the optimizer's state."""
    flops_per_sample: float = 0.0
    """Of forward and backward; 0 where nothing was counted."""
    layer_bytes: Sequence[int] = ()
    """What each layer with parameters puts out for the batch."""

    @property
    def step_seconds(self) -> float:
        """Of a step on one device."""
        return self.forward_seconds + self.backward_seconds + self.update_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeRanks(Request["RanksTimed"]):
    """Ask for steps of several processes: copies that share nothing, with and without sync, and the buckets alone."""

    kind: Literal["time_ranks"] = "time_ranks"
    device: str
    num_devices: int
    batch_sizes: Sequence[int]
    """Per device."""
    precision: str
    num_threads: int
    message_bytes: Sequence[int]
    """Sizes of all-reduces to time alone."""
    bucket_bytes: Sequence[int]
    """Gradient buckets of a step, in order, to be all-reduced alone."""
    bucket_cap_mb: float | None = None
    """Of DistributedDataParallel; None leaves it torch's own."""
    broadcast_buffers: bool = True
    find_unused: bool = False
    seconds: float = 3.0
    """For the repeats of each batch size."""
    delay_seconds: float = 0.0
    """That each message of gradients takes longer than it does here: another link, played."""
    wait_seconds: float = field(default=240.0, compare=False)
    """How long processes wait for one another."""
    seed: int = 0

    @property
    def environment(self) -> Environment:
        """The user's own."""
        return UNCHANGED


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """All-reduces of one size, alone."""

    num_bytes: int
    seconds: float
    busy_cores: float
    """Cores that each process used meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSteps:
    """Steps at one batch size; each is as long as that of the slowest process."""

    batch_size: int
    copies_seconds: float
    """Every process trains by itself, all at once: what they take of each other's cores and memory."""
    no_sync_seconds: float
    sync_seconds: float
    buckets_seconds: float
    """All-reduces of the same buckets, one after another, alone."""
    exposed_seconds: float
    """Median over rounds of sync less no_sync."""
    exposed_range: tuple[float, float]
    sync_range: tuple[float, float]
    num_repeats: int
    utilisation: Sequence[float]
    """Of each process: share of its cores while steps were synchronised; empty where the device is no CPU."""
    rank_seconds: Sequence[float] = ()
    """Of a copy in each process: who is slower than the others."""

    @property
    def exposed_in_step(self) -> float:
        """What is exposed, at least nothing and at most what a step with sync takes longer than any without.

        It is a median over rounds and the step one over all steps, so a few stalls may make it longer than the step.
        """
        without = min(self.copies_seconds, self.no_sync_seconds)
        return max(0.0, min(self.exposed_seconds, self.sync_seconds - without))


@dataclass(frozen=True, slots=True, kw_only=True)
class RanksTimed:
    """What several processes took."""

    kind: Literal["ranks_timed"] = "ranks_timed"
    backend: str
    messages: Sequence[Message]
    steps: Sequence[RankSteps]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeWrapped(Request["WrappedTimed"]):
    """Ask what DistributedDataParallel costs in one process, which has nobody to tell: all but the link."""

    kind: Literal["time_wrapped"] = "time_wrapped"
    device: str
    batch_size: int
    precision: str
    num_threads: int
    bucket_cap_mb: float | None = None
    broadcast_buffers: bool = True
    find_unused: bool = False
    wait_seconds: float = field(default=240.0, compare=False)
    seed: int = 0

    @property
    def environment(self) -> Environment:
        """The user's own."""
        return UNCHANGED


@dataclass(frozen=True, slots=True, kw_only=True)
class WrappedTimed:
    """What its steps took; on a GPU, by NCCL."""

    kind: Literal["wrapped_timed"] = "wrapped_timed"
    backend: str
    exposed_seconds: float
    """Median over rounds of sync less no_sync."""
    no_sync_seconds: float
    sync_seconds: float
    num_repeats: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeDataParallel(Request["DataParallelTimed"]):
    """Ask for steps of one process that shares each batch out to several GPUs (nn.DataParallel)."""

    kind: Literal["time_data_parallel"] = "time_data_parallel"
    num_devices: int
    batch_size: int
    """Of all together."""
    precision: str
    seed: int = 0

    @property
    def environment(self) -> Environment:
        """The user's own."""
        return UNCHANGED


@dataclass(frozen=True, slots=True, kw_only=True)
class DataParallelTimed:
    """What such steps took."""

    kind: Literal["data_parallel_timed"] = "data_parallel_timed"
    step_seconds: float
    peak_bytes: Sequence[int]
    """Of each GPU; the first coordinates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicesQuestion:
    """All that advice needs besides the records."""

    device: str
    settings: Mapping[str, Any]
    """The job's own, at the batch size in question."""
    batch_size: int
    """Per device in weak scaling, global in strong scaling."""
    batch_sizes: Sequence[int]
    """Sizes at which one device is timed."""
    scalings: Sequence[Scaling]
    num_here: int
    """Devices of this machine; on a CPU its cores."""
    num_measured: int
    """The most that are run together."""
    num_most: int
    """The most to recommend."""
    num_threads: int
    num_cores: int
    link_name: str | None = None
    """As the user wrote it; None where this machine's own is measured."""
    rule: str = "legroom"
    speeds: Sequence[float] = ()
    """Of unequal devices, relative to the one measured."""
    price: float | None = None
    """Of one device for an hour."""
    delay_seconds: float = 0.0
    """Of each message, besides what it takes here."""
    wait_seconds: float = 240.0
    """How long processes wait for one another."""
    num_samples: int | None = None
    critical_batch_size: float | None = None
    critical_range: tuple[float, float] | None = None
    memory: Mapping[str, float] = field(default_factory=dict)
    """`max_batch_size`, `fixed_bytes`, `bytes_per_sample`, `budget_bytes` of a memory answer; empty where none is."""
    notes: Sequence[str] = ()
    missing: Sequence[str] = ()
    """What could not be measured, and why."""
    carries_state: bool = False
    """Whether batches go on where others ended, so that nothing can be run on several devices."""
    own_batch_size: int | None = None
    """Of the job itself, whose rate is meant for it; None: a question of before, which took the one in question."""
    largest_batch: int | None = None
    """Of one device, where the batch in question does not fit it."""

    @property
    def bucket_cap_mb(self) -> float | None:
        """Of DistributedDataParallel, by the job's own settings; None leaves it torch's own."""
        cap: float | None = self.settings.get("bucket_cap_mb")
        return cap

    @property
    def broadcast_buffers(self) -> bool:
        """Whether buffers are broadcast before each forward pass, by the job's own settings."""
        return bool(self.settings.get("broadcast_buffers", True))

    @property
    def own_batch(self) -> int:
        """Samples of one pass on one device as the job itself trains."""
        return self.own_batch_size or self.batch_size

    @property
    def own_update(self) -> int:
        """Those of all its passes and devices, which its rate is meant for."""
        return self.own_batch * self.own_passes * int(self.settings.get("num_devices", 1))

    @property
    def own_passes(self) -> int:
        """Passes that the job itself joins into an update."""
        return int(self.settings.get("accumulation_steps", 1))

    def backward(self, batch_size: int) -> TimeBackward:
        """The request for steps of one device at that batch."""
        return TimeBackward(
            device=self.device,
            batch_size=batch_size,
            precision=str(self.settings["precision"]),
            num_threads=self.num_threads,
            seed=int(self.settings["seed"]),
        )

    def threaded(self) -> TimeBackward | None:
        """The request for one process with all cores; None where a device is no core, or the only one."""
        if self.device != "cpu" or self.num_cores <= self.num_threads:
            return None
        return replace(self.backward(self.largest_batch or self.batch_size), num_threads=self.num_cores)

    def data_parallel(self) -> TimeDataParallel | None:
        """The request for nn.DataParallel over the GPUs that are run together; None where there are no two."""
        if self.device != "cuda" or self.num_measured < 2:
            return None
        return TimeDataParallel(
            num_devices=self.num_measured,
            batch_size=self.num_measured * (self.largest_batch or self.batch_size),
            precision=str(self.settings["precision"]),
            seed=int(self.settings["seed"]),
        )

    def wrapped(self, batch_size: int, *, find_unused: bool) -> TimeWrapped | None:
        """The request for one process with DistributedDataParallel; None where there is nothing to forecast."""
        if self.carries_state or (self.num_measured < 2 and self.link_name is None):
            return None
        return TimeWrapped(
            device=self.device,
            batch_size=batch_size,
            precision=str(self.settings["precision"]),
            num_threads=self.num_threads,
            bucket_cap_mb=self.bucket_cap_mb,
            broadcast_buffers=self.broadcast_buffers,
            find_unused=find_unused,
            wait_seconds=self.wait_seconds,
            seed=int(self.settings["seed"]),
        )

    def ranks(
        self, num_devices: int, batch_sizes: Sequence[int], bucket_bytes: Sequence[int], *, find_unused: bool
    ) -> TimeRanks:
        """The request for steps of so many together."""
        return TimeRanks(
            device=self.device,
            num_devices=num_devices,
            batch_sizes=list(batch_sizes),
            precision=str(self.settings["precision"]),
            num_threads=self.num_threads,
            message_bytes=sorted({*MESSAGE_BYTES, *bucket_bytes}),
            bucket_bytes=list(bucket_bytes),
            bucket_cap_mb=self.bucket_cap_mb,
            broadcast_buffers=self.broadcast_buffers,
            find_unused=find_unused,
            delay_seconds=self.delay_seconds,
            wait_seconds=self.wait_seconds,
            seed=int(self.settings["seed"]),
        )


RECORDS = (
    RecordKind(TimeBackward, BackwardTimes, "legroom.questions.devices.child.backward:time_backward"),
    RecordKind(
        TimeDataParallel,
        DataParallelTimed,
        "legroom.questions.devices.child.data_parallel:time_data_parallel",
    ),
    RecordKind(TimeRanks, RanksTimed, "legroom.questions.devices.child.ranks:time_ranks"),
    RecordKind(TimeWrapped, WrappedTimed, "legroom.questions.devices.child.ranks:time_wrapped"),
)
QUESTION = DevicesQuestion
