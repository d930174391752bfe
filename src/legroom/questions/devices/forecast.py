"""Steps of many devices, forecast from one: its backward pass, its buckets, and a link."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal

from legroom.laws.communication import (
    Link,
    backward_end,
    broadcast_seconds,
    proportional_batches,
    ring_seconds,
    strong_speedup,
    tree_seconds,
    weak_speedup,
    whole_shares,
)
from legroom.questions.devices.evidence import Evidence, Pass
from legroom.questions.devices.records import DevicesQuestion, RankSteps, Scaling

Algorithm = Literal["ring", "tree"]
ALL_REDUCES: Mapping[Algorithm, Callable[[float, float, float, float], float]] = {
    "ring": ring_seconds,
    "tree": tree_seconds,
}
NUM_DEVICES = [2**power for power in range(1, 13)]
"""2 to 4096."""
CAPS_MB = (1.0, 5.0, 10.0, 25.0, 50.0, 100.0)
"""Sizes of buckets that are compared."""
LEAST_SPREAD, LEAST_OFF = 1.3, 1.05
"""By which factors transfers and passes may be off at least: what fits and medians hide of steps on a real machine."""
SAME = 1.02
"""Times the least step: buckets within it are as good, and torch's own goes first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step of some devices, forecast."""

    compute: float
    exposed: float
    total: float
    """Of all communication, hidden or not."""
    beside: float = 0.0
    """Of it, copies into and out of buckets and the buffers' broadcast: all but the buckets' way."""
    algorithm: Algorithm
    exposed_by: Mapping[str, float]

    @property
    def seconds(self) -> float:
        """Of the whole step."""
        return self.compute + self.exposed


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecaster:
    """Knows one device and a link, and tells steps of many."""

    evidence: Evidence
    question: DevicesQuestion
    link: Link
    broadcasts: bool = True
    """Whether buffers are broadcast before each forward pass."""
    measured: Link
    """The same link as it was fitted, where `link` is one end of its range."""
    cap_mb: float | None = None
    """MiB of a bucket; None is torch's own way."""

    def step(self, num_devices: int, batch_size: float, *, slow: float = 1.0) -> Step:
        """The step at that batch per device; `slow`: how many times longer the device takes than the one measured."""
        times = slow * self.evidence.contention(num_devices, batch_size)
        one = self.evidence.at(batch_size).slowed(times)
        if num_devices == 1:
            return Step(compute=one.seconds, exposed=0.0, total=0.0, algorithm="ring", exposed_by={})
        missed = self.missed(num_devices, batch_size)
        found = {name: self._exposed(one, num_devices, name, times, missed) for name in ALL_REDUCES}
        # gloo knows rings alone; NCCL takes what it holds for the faster.
        best: Algorithm = "ring" if self.question.device == "cpu" else min(found, key=lambda name: found[name][0])
        exposed, total, beside = found[best]
        exposed_by = {str(name): each[0] for name, each in found.items()}
        return Step(
            compute=one.seconds, exposed=exposed, total=total, beside=beside, algorithm=best, exposed_by=exposed_by
        )

    def _exposed(
        self, one: Pass, num_devices: int, name: Algorithm, times: float, missed: float
    ) -> tuple[float, float, float]:
        """Seconds that the step does not hide, those of all communication, and of it all but the buckets' way.

        Gradients are copied into their buckets, and back after the last all-reduce, by what computes them: that hides
        behind nothing. Nor does what DistributedDataParallel does besides: both are what it costs in one process.
        """
        link = self.link
        buckets = one.buckets(self.cap_mb)
        transfers = [
            self.off(bucket.num_bytes) * ALL_REDUCES[name](bucket.num_bytes, num_devices, link.latency, link.bandwidth)
            for bucket in buckets
        ]
        size = sum(bucket.num_bytes for bucket in buckets)
        copying = self.copying(size, times)
        copied = list(accumulate(copying * bucket.num_bytes / size for bucket in buckets))
        ready = [bucket.ready_seconds + before for bucket, before in zip(buckets, copied, strict=True)]
        stolen = self.evidence.stolen(self.question, num_devices)
        end = backward_end(one.backward + copying, ready, transfers, stolen) + copying
        first = self.buffers(num_devices)
        beside = 2 * copying + first + missed
        return end - one.backward + first + missed, sum(transfers) + beside, beside

    def copying(self, num_bytes: float, times: float) -> float:
        """Seconds in which so much is copied into buckets, or back, by a device that takes so many times longer."""
        pace = self.evidence.facts.copy_bytes_per_second
        return times * max(num_bytes / pace if pace else 0.0, self.evidence.wrapping / 2)

    def off(self, num_bytes: float) -> float:
        """What the link's law misses at that size; a link that was named has no other evidence than its name."""
        return 1.0 if self.question.link_name is not None else self.evidence.off(self.measured, num_bytes)

    def buffers(self, num_devices: int) -> float:
        """Seconds of the buffers' broadcast before a forward pass."""
        facts, link = self.evidence.facts, self.link
        if not (self.broadcasts and facts.buffer_bytes):
            return 0.0
        more = (facts.num_buffer_messages - 1) * broadcast_seconds(0.0, num_devices, link.latency, link.bandwidth)
        return more + broadcast_seconds(facts.buffer_bytes, num_devices, link.latency, link.bandwidth)

    def missed(self, num_devices: int, batch_size: float) -> float:
        """Seconds that the fewest devices run together exposed beyond their forecast: as many as more devices will.

        The forecast of those themselves stays what one device and the link say. A link that was named is another.
        """
        return self.missed_there(batch_size) if self._is_beyond(num_devices) else 0.0

    def missed_there(self, batch_size: float) -> float:
        """Seconds that the fewest devices run together exposed beyond their forecast, at about that batch."""
        if self.question.link_name is not None or not self.evidence.together:
            return 0.0
        plain, steps, num = self._of_fewest(batch_size)
        return max(0.0, steps.exposed_in_step - plain.step(num, steps.batch_size).exposed)

    def _is_beyond(self, num_devices: int) -> bool:
        together = self.evidence.together
        return self.question.link_name is None and bool(together) and num_devices > min(together)

    def _of_fewest(self, batch_size: float) -> tuple["Forecaster", RankSteps, int]:
        """Who forecasts the fewest devices as they were run, what they took at about that batch, and how many."""
        num, question = min(self.evidence.together), self.question
        plain = replace(self, link=self.measured, cap_mb=question.bucket_cap_mb, broadcasts=question.broadcast_buffers)
        return plain, self.evidence.nearest_steps(num, batch_size), num

    def span(self, num_devices: int, batch_size: float) -> tuple[float, float]:
        """Between which the step lies: by what link and one device may be off, and the fewest run together were."""
        low, high = self._span(num_devices, batch_size)
        if not self._is_beyond(num_devices):
            return low, high
        plain, steps, num = self._of_fewest(batch_size)
        missed = self.missed(num_devices, batch_size)
        least, most = (end + missed for end in plain._span(num, steps.batch_size))
        return low * min(1.0, steps.sync_seconds / least), high * max(1.0, steps.sync_seconds / most)

    def _span(self, num_devices: int, batch_size: float) -> tuple[float, float]:
        spread, off = max(LEAST_SPREAD, self.link.spread), max(LEAST_OFF, self.evidence.facts.spread)
        ends = []
        for times in (1 / spread, spread):
            link = Link(latency=self.link.latency * times, bandwidth=self.link.bandwidth / times)
            ends.append(replace(self, link=link).step(num_devices, batch_size))
        return ends[0].compute / off + ends[0].exposed, ends[1].compute * off + ends[1].exposed


def batch_of(scaling: Scaling, batch_size: int, num_devices: int) -> float:
    """The batch per device: the same in weak scaling, a share of the same global batch in strong scaling.

    >>> batch_of("weak", 64, 4), batch_of("strong", 64, 4)
    (64, 16.0)
    """
    return batch_size if scaling == "weak" else batch_size / num_devices


def speedup_of(scaling: Scaling, one_seconds: float, step_seconds: float, num_devices: int) -> float:
    """By the scaling's own definition."""
    if scaling == "strong":
        return strong_speedup(one_seconds, step_seconds)
    return weak_speedup(one_seconds, step_seconds, num_devices)


def best_cap(
    forecaster: Forecaster, num_devices: int, batch_size: float
) -> tuple[float | None, dict[float | None, float]]:
    """The size of buckets with the shortest step, and the seconds of all compared; None is torch's own."""
    seconds = {cap: replace(forecaster, cap_mb=cap).step(num_devices, batch_size).seconds for cap in (None, *CAPS_MB)}
    best = min(seconds, key=lambda cap: seconds[cap])
    return (None if seconds[None] <= SAME * seconds[best] else best), seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Unequal:
    """Devices of unequal speed: what the slowest costs, and what a split by speed gives back."""

    speeds: Sequence[float]
    straggler: int
    """Place of the slowest, from 1 on."""
    even_seconds: float
    """Of a step where each has the same share of the batch: all wait for the slowest."""
    batches: Sequence[float]
    """Shares of the global batch by speed."""
    split_seconds: float


def forecast_unequal(forecaster: Forecaster, global_batch: float, speeds: Sequence[float]) -> Unequal:
    """The step of these devices with the global batch split evenly, and in proportion to speed."""
    num, batches = len(speeds), whole_shares(proportional_batches(global_batch, speeds))
    even = max(forecaster.step(num, global_batch / num, slow=1 / speed).seconds for speed in speeds)
    split = max(
        forecaster.step(num, batch, slow=1 / speed).seconds
        for batch, speed in zip(batches, speeds, strict=True)
        if batch  # a device without a share computes nothing
    )
    return Unequal(
        speeds=list(speeds),
        straggler=1 + speeds.index(min(speeds)),
        even_seconds=even,
        batches=batches,
        split_seconds=split,
    )
