"""A planted device and link: steps of one device, and of several whose buckets travel a ring."""

import math
from typing import Any, ClassVar

from legroom.laws.communication import backward_end, buckets_of, ring_seconds
from legroom.questions.devices.records import (
    BackwardTimes,
    DataParallelTimed,
    Message,
    RankSteps,
    RanksTimed,
    TimeBackward,
    TimeDataParallel,
    TimeRanks,
    TimeWrapped,
    WrappedTimed,
)
from legroom.requests import Request


class FakeRing:
    """Devices with planted passes on a planted ring; gradients come at even intervals.

    >>> ring = FakeRing(latency=1e-5, bandwidth=1e9)
    >>> times, _ = ring.answer(TimeBackward(device="cpu", batch_size=100, precision="fp32", num_threads=1))
    >>> round(times.backward_seconds, 6), len(times.gradient_bytes)
    (0.021, 8)
    """

    ANSWERS: ClassVar[tuple[type[Request[Any]], ...]] = (TimeBackward, TimeRanks, TimeWrapped, TimeDataParallel)

    def __init__(
        self,
        *,
        latency: float = 2e-5,
        bandwidth: float = 1e9,
        gradient_bytes: tuple[int, ...] = (4_000_000,) * 8,
        fixed_seconds: float = 0.001,
        sample_seconds: float = 0.0002,
        contention: float = 1.0,
        busy_cores: float = 0.0,
        largest_batch: float = float("inf"),
        gain_by_threads: float = 1.0,
        straggler: float = 1.0,
        wrapping: float = 0.0,
        **facts: Any,
    ) -> None:
        self.latency, self.bandwidth, self.gradient_bytes = latency, bandwidth, gradient_bytes
        self.fixed_seconds, self.sample_seconds, self.contention = fixed_seconds, sample_seconds, contention
        self.busy_cores, self.largest_batch = busy_cores, largest_batch
        self.gain_by_threads, self.straggler = gain_by_threads, straggler
        """Times that a process with several threads is faster, and that the last of several devices is slower."""
        self.wrapping = wrapping
        """Seconds that DistributedDataParallel costs, beside its copies, also where there is one device alone."""
        pace = facts.get("copy_bytes_per_second")
        self._seconds_a_byte = 1 / pace if pace else 0.0
        self.facts = facts
        """Further fields of what a child reports of the model."""

    def backward(self, batch_size: float) -> float:
        """Planted seconds of a backward pass; a forward pass takes half, an update a fixed time."""
        return self.fixed_seconds + self.sample_seconds * batch_size

    def compute(self, batch_size: float) -> float:
        """Planted seconds of a step on one device."""
        return 1.5 * self.backward(batch_size) + self.fixed_seconds

    def exposed(
        self, num_devices: int, batch_size: float, cap_mb: float | None = None, *, broadcasts: bool = True
    ) -> float:
        """Planted seconds that a step of several takes longer than one without sync."""
        contention = self.contention if num_devices > 1 else 1.0
        backward = contention * self.backward(batch_size)
        buckets = buckets_of(self.gradient_bytes, self._ready(backward), cap_mb)
        transfers = [ring_seconds(each.num_bytes, num_devices, self.latency, self.bandwidth) for each in buckets]
        copied, ready, size = 0.0, [], sum(self.gradient_bytes)
        for each in buckets:  # by the core that computes, which goes on with the pass only then
            copied += contention * each.num_bytes * (self._seconds_a_byte + self.wrapping / 2 / size)
            ready.append(each.ready_seconds + copied)
        end = backward_end(backward + copied, ready, transfers, self.busy_cores) + copied
        return end - backward + (self.broadcast(num_devices) if broadcasts else 0.0)

    def broadcast(self, num_devices: int) -> float:
        """Planted seconds in which buffers reach all devices, who hand them on to as many as have none."""
        rounds = math.ceil(math.log2(num_devices))
        num, size = self.facts.get("num_buffer_messages", 0), self.facts.get("buffer_bytes", 0)
        return float(rounds * (num * self.latency + size / self.bandwidth))

    def answer(self, request: Any) -> tuple[Any, float]:
        """What a child would report, and the seconds that would take."""
        match request:
            case TimeBackward():
                return self._alone(request), 2.0
            case TimeWrapped():
                return self._wrapped(request), 8.0
            case TimeDataParallel():
                return self._data_parallel(request), 2.0
        return self._together(request), 20.0

    def _ready(self, backward: float) -> list[float]:
        num = len(self.gradient_bytes)
        return [backward * (place + 1) / num for place in range(num)]

    def _alone(self, request: TimeBackward) -> BackwardTimes:
        if request.batch_size > self.largest_batch:
            return BackwardTimes(outcome="out_of_memory")
        gain = self.gain_by_threads if request.num_threads > 1 else 1.0
        backward = self.backward(request.batch_size) / gain
        planted = {
            "forward_seconds": backward / 2,
            "backward_seconds": backward,
            "update_seconds": self.fixed_seconds / gain,
            "spread": 1.02,
            "num_repeats": 20,
            "gradient_bytes": list(self.gradient_bytes),
            "ready_seconds": self._ready(backward),
            "parameter_bytes": sum(self.gradient_bytes),
            "layer_bytes": [1000 * request.batch_size] * 4,
            "flops_per_sample": 1e9,
        }
        return BackwardTimes(**{**planted, **self.facts})

    def _wrapped(self, request: TimeWrapped) -> WrappedTimed:
        alone = self.compute(request.batch_size)
        exposed = self.exposed(1, request.batch_size, request.bucket_cap_mb, broadcasts=request.broadcast_buffers)
        return WrappedTimed(
            backend="planted",
            exposed_seconds=exposed,
            no_sync_seconds=alone,
            sync_seconds=alone + exposed,
            num_repeats=20,
        )

    def _data_parallel(self, request: TimeDataParallel) -> DataParallelTimed:
        """Steps that hide no transfer, and a first device that holds twice what the others do."""
        num, size = request.num_devices, sum(self.gradient_bytes)
        moved = 2 * ring_seconds(size, num, self.latency, self.bandwidth)
        peaks = [2 * size, *([size] * (num - 1))]
        return DataParallelTimed(step_seconds=self.compute(request.batch_size / num) + moved, peak_bytes=peaks)

    def _together(self, request: TimeRanks) -> RanksTimed:
        num = request.num_devices
        messages = [
            Message(
                num_bytes=size,
                seconds=ring_seconds(size, num, self.latency, self.bandwidth),
                busy_cores=self.busy_cores,
            )
            for size in request.message_bytes
        ]
        return RanksTimed(
            backend="planted", messages=messages, steps=[self._steps(request, size) for size in request.batch_sizes]
        )

    def _steps(self, request: TimeRanks, size: int) -> RankSteps:
        num, alone = request.num_devices, self.contention * self.compute(size)
        exposed = self.exposed(num, size, request.bucket_cap_mb, broadcasts=request.broadcast_buffers)
        total = sum(ring_seconds(each, num, self.latency, self.bandwidth) for each in request.bucket_bytes)
        return RankSteps(
            batch_size=size,
            copies_seconds=alone,
            no_sync_seconds=alone,
            sync_seconds=alone + exposed,
            buckets_seconds=total,
            exposed_seconds=exposed,
            exposed_range=(exposed, exposed),
            sync_range=(alone + exposed, alone + exposed),
            num_repeats=20,
            utilisation=[1.0] * num,
            rank_seconds=[alone] * (num - 1) + [self.straggler * alone],
        )
