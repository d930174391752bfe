"""The answer of `legroom loading`, with the names scripts rely on."""

from dataclasses import dataclass, field
from typing import Any

from legroom.questions.base import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadingAnswer(Answer):
    """Loader settings, what they reach, and what holds them back."""

    device: str
    batch_size: int
    num_devices: int
    num_workers: int
    """For each device."""
    prefetch_factor: int
    pin_memory: bool
    persistent_workers: bool
    range: tuple[int, int]
    """Fewest and most workers measured within 5 % of the best."""
    samples_per_second: float
    """Of all devices together: samples over the seconds of all turns, as a loop over the loader would show."""
    device_samples_per_second: float
    """What one device takes when samples already lie on it."""
    is_fed: bool
    """Whether the device gets all it can take, to within 2 %."""
    bound_by: str
    shares: dict[str, float]
    """Of a batch's time: compute, preparation, storage."""
    max_workers_by_memory: int
    """At most 256, the most that are ever tried."""
    workers_by_memory: list[dict[str, int]]
    """The most workers that fit for larger batches (table 3.1 of A. Tripathi, 2019, for this machine)."""
    worker_bytes: int
    shared_bytes: int
    """Of all batches that wait in shared memory."""
    batch_bytes: int = 0
    """Of one batch on the device; 0 where an earlier version asked."""
    batch_by_memory: list[dict[str, int]] = field(default_factory=list)
    """Workers and batch for hosts of other sizes, where the thesis' rule was asked for (its table 5.6)."""
    batch_seconds: dict[str, float]
    """Step, copy to the device, preparation without workers, one worker's whole batch, transfer between processes."""
    read_bytes_per_sample: float | None
    storage_bytes_per_second: float | None
    law: dict[str, float]
    points: list[dict[str, Any]]
    """Every setting run with the step: workers, prefetch, throughput, spread, all on one scale."""
    num_samples: int | None = None
    """Of the data set; None where nobody knows."""
    rule: str = "legroom"
    """Asked by: ours, or the thesis'."""
    settings: dict[str, Any]
    baseline: dict[str, Any]
