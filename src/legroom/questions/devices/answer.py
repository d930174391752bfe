"""The answers of `legroom devices`, with the names scripts rely on."""

from dataclasses import dataclass, field
from typing import Any

from legroom.questions.base import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicesAnswer(Answer):
    """What more devices give, measured as far as they are here and forecast beyond."""

    device: str
    precision: str
    rule: str
    batch_size: int
    """Per device in weak scaling, of all together in strong scaling."""
    points: list[dict[str, Any]]
    """`num_devices`, `scaling`, `step_seconds`, `speedup`, `efficiency`, `exposed_seconds`, `predicted`, `range` ..."""
    bandwidth_bytes_per_second: float | None
    latency_seconds: float | None
    link: dict[str, Any]
    """`name`, whether it was `measured`, and the `spread` of transfers."""
    messages: list[dict[str, Any]] = field(default_factory=list)
    """All-reduces timed alone, with the bandwidth of the bus."""
    wire: list[dict[str, Any]]
    num_devices: int
    device_batch_size: int
    """Of each device, at that number."""
    scaling: str
    """Whether that number shares the batch (strong) or each device has its own (weak)."""
    stops_paying_at: int | None
    """The first number of devices, up to `num_seen`, that pays no more; None where all do."""
    num_seen: int | None = None
    """The most that were looked at: numbers that a run can have, of that scaling. None: an answer of before."""
    no_more_because: str = ""
    """Why no more are recommended."""
    bucket_cap_mb: float | None
    """None: torch's own, 1 MiB and then 25, is as good as any."""
    broadcast_buffers: bool
    find_unused_parameters: bool = False
    """Whether DistributedDataParallel needs it: some parameters get no gradient."""
    batches: list[dict[str, Any]] = field(default_factory=list)
    """Of weak scaling: global batch, rate and warm-up by LEGW, and what the critical batch leaves of the speed-up."""
    traffic: list[dict[str, Any]] = field(default_factory=list)
    """Of an epoch at each number of devices: messages, bytes, operations for each byte."""
    splits: list[dict[str, Any]] = field(default_factory=list)
    unequal: dict[str, Any] | None = None
    data_parallel: dict[str, Any] | None = None
    """Of nn.DataParallel: `num_devices`, `step_seconds`, and the `peak_bytes` of each GPU, the coordinator first."""
    critical_batch_size: float | None = None
    num_samples: int | None = None
    settings: dict[str, Any]
    baseline: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAnswer(Answer):
    """What published times of some devices say, and what is wrong with them."""

    points: list[dict[str, Any]]
    """Weak scaling at each batch per device: speed-up, efficiency, communication by their definition and by ours.

    Strong scaling, where that is all that the table has.
    """
    forecasts: list[dict[str, Any]]
    """Around each time of more than two devices, from one and two: latency alone and bandwidth alone."""
    throughputs: list[dict[str, Any]]
    """Of one device at each batch, against its peak."""
    strong: list[dict[str, Any]]
    """Strong scaling read from the same table: equal global batches."""
    communication: list[dict[str, Any]]
    """Communication and bandwidth as published, and recomputed."""
    num_devices: int | None = None
    """This and what follows as in the answer of a job: published times tell none of it."""
    bandwidth_bytes_per_second: float | None = None
    latency_seconds: float | None = None
    wire: list[dict[str, Any]] = field(default_factory=list)
