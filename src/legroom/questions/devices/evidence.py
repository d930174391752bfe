"""What a logbook holds of one device and of several: search and advice both read it here."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from legroom.laws.communication import Bucket, Link, buckets_of, fit_link, ring_seconds, stolen_share
from legroom.laws.time_to_target import compute_seconds
from legroom.logbook import Entry
from legroom.questions.devices.links import read_link
from legroom.questions.devices.records import (
    BackwardTimes,
    DataParallelTimed,
    DevicesQuestion,
    RankSteps,
    RanksTimed,
    TimeBackward,
    TimeRanks,
    TimeWrapped,
    WrappedTimed,
)

FITTED_FROM_BYTES = 2**13
"""All-reduces of fewer bytes are latency alone, and the noisiest: two of them are enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """A step of one device at one batch size, in parts."""

    forward: float
    backward: float
    update: float
    gradient_bytes: Sequence[int]
    ready_seconds: Sequence[float]

    @property
    def seconds(self) -> float:
        """Of the whole step."""
        return self.forward + self.backward + self.update

    def slowed(self, times: float) -> "Pass":
        """The same where everything takes so many times longer."""
        return replace(
            self,
            forward=times * self.forward,
            backward=times * self.backward,
            update=times * self.update,
            ready_seconds=[times * ready for ready in self.ready_seconds],
        )

    def buckets(self, cap_mb: float | None) -> list[Bucket]:
        """Its gradients as they will travel."""
        return buckets_of(self.gradient_bytes, self.ready_seconds, cap_mb)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that was seen for the question."""

    alone: Mapping[int, BackwardTimes]
    """One device, by batch size."""
    together: Mapping[int, RanksTimed]
    """Several, by their number."""
    largest: int | None = None
    """Batch that one device holds; larger ones are made in several passes. None: all that are asked for fit."""
    data_parallel: DataParallelTimed | None = None
    wrapped: WrappedTimed | None = None
    """One process with DistributedDataParallel; None: an answer of before, or it failed."""
    threaded: BackwardTimes | None = None
    """One process with all cores, at the batch in question; None where a device is no core."""

    @property
    def facts(self) -> BackwardTimes:
        """What the model is made of."""
        return self.alone[max(self.alone)]

    def at(self, batch_size: float) -> Pass:
        """The step of one device at that batch, in as many passes as it takes; buckets come with the last of them."""
        passes = self.num_passes(batch_size)
        one = self._pass(batch_size / passes)
        return replace(one, forward=passes * one.forward + (passes - 1) * one.backward)

    def one_seconds(self, batch_size: int) -> float:
        """Of a step of one device at that batch: as timed, where it was."""
        return self.alone[batch_size].step_seconds if batch_size in self.alone else self.at(batch_size).seconds

    def gain_by_threads(self, question: DevicesQuestion) -> float | None:
        """How many times faster a process with all cores makes the step than one with a single thread."""
        if self.threaded is None or self.threaded.outcome != "measured":
            return None
        size = question.largest_batch or question.batch_size
        return self.alone[size].step_seconds / self.threaded.step_seconds

    @property
    def wrapping(self) -> float:
        """Seconds that sync costs one process alone: copies into and out of buckets, and what else is no link's."""
        return max(0.0, self.wrapped.exposed_seconds) if self.wrapped else 0.0

    def num_passes(self, batch_size: float) -> int:
        """Passes in which one device makes a step of that batch."""
        return 1 if self.largest is None else math.ceil(batch_size / self.largest)

    def _pass(self, batch_size: float) -> Pass:
        """One pass and an update: between the sizes timed, by straight lines in logarithms."""
        sizes = sorted(self.alone)
        nearest = self.alone[min(sizes, key=lambda size: abs(math.log(size / batch_size)))]
        forward, backward = (
            compute_seconds(batch_size, sizes, [getattr(self.alone[size], name) for size in sizes])
            for name in ("forward_seconds", "backward_seconds")
        )
        return Pass(
            forward=forward,
            backward=backward,
            update=statistics.median(each.update_seconds for each in self.alone.values()),
            gradient_bytes=nearest.gradient_bytes,
            ready_seconds=[backward / nearest.backward_seconds * ready for ready in nearest.ready_seconds],
        )

    def steps(self, num_devices: int, batch_size: int) -> RankSteps | None:
        """What so many took at that batch per device, where they were run."""
        timed = self.together.get(num_devices)
        return next((each for each in timed.steps if each.batch_size == batch_size), None) if timed else None

    def nearest_steps(self, num_devices: int, batch_size: float) -> RankSteps:
        """Of the steps that so many made together, those at the nearest batch per device."""
        steps = self.together[num_devices].steps
        return min(steps, key=lambda each: abs(math.log(each.batch_size / batch_size)))

    def contention(self, num_devices: int, batch_size: float) -> float:
        """Times the seconds of one device that a copy among so many takes; of the most that were run where more are.

        Never below 1: a neighbour does not speed a device up, and what seems so is noise.
        """
        known = [num for num in self.together if num <= num_devices]
        if not known:
            return 1.0
        nearest = self.nearest_steps(max(known), batch_size)
        return max(1.0, nearest.copies_seconds / self.at(nearest.batch_size).seconds)

    def link(self, question: DevicesQuestion) -> Link | None:
        """The link that was named, or the one measured with the fewest devices; None where there is neither."""
        if question.link_name is not None:
            return read_link(question.link_name)
        if not self.together:
            return None
        num = min(self.together)
        messages = self.together[num].messages
        return fit_link(num, [each.num_bytes for each in messages], [each.seconds for each in messages])

    def off(self, link: Link, num_bytes: float) -> float:
        """Times that an all-reduce of about that size took longer than the link's two numbers say."""
        if not self.together:
            return 1.0
        num = min(self.together)
        nearest = min(self.together[num].messages, key=lambda each: abs(math.log(each.num_bytes / num_bytes)))
        return nearest.seconds / ring_seconds(nearest.num_bytes, num, link.latency, link.bandwidth)

    def stolen(self, question: DevicesQuestion, num_devices: int) -> float:
        """Share of a device's pace that its transfers take; 0 on a GPU, whose links move bytes by themselves."""
        if question.device != "cpu" or not self.together:
            return 0.0
        large = [each for each in self.together[min(self.together)].messages if each.num_bytes >= FITTED_FROM_BYTES]
        busy = statistics.median(each.busy_cores for each in large) if large else 0.0
        return stolen_share(busy, min(num_devices, question.num_here), question.num_threads, question.num_cores)


def gather(entries: Iterable[Entry], question: DevicesQuestion) -> Evidence:
    """The evidence among the entries: answers to exactly what this question asks, the latest of each."""
    found = list(entries)
    alone = {
        entry.request.batch_size: entry.result
        for entry in found
        if isinstance(entry.request, TimeBackward)
        and entry.request == question.backward(entry.request.batch_size)
        and entry.request.batch_size in question.batch_sizes
        and entry.result.outcome == "measured"
    }
    first = Evidence(
        alone=alone,
        together={},
        largest=question.largest_batch,
        threaded=_answer(found, question.threaded()),
        data_parallel=_answer(found, question.data_parallel()),
    )
    if not alone:
        return first
    wanted = [ranks_request(first, question, num) for num in numbers_measured(question)]
    together = {entry.request.num_devices: entry.result for entry in found if entry.request in wanted}
    return replace(first, together=together, wrapped=_answer(found, wrapped_request(first, question)))


def _answer(entries: Sequence[Entry], request: Any) -> Any:
    """What was answered to exactly that; None where nothing was, or nothing was asked."""
    return next((entry.result for entry in reversed(entries) if entry.request == request), None)


def numbers_measured(question: DevicesQuestion) -> list[int]:
    """How many devices are run together: 2, 4, 8 ... and the most that was asked for."""
    return numbers_to(question.num_measured)


def numbers_to(most: int) -> list[int]:
    """2, 4, 8 ... and the most.

    >>> numbers_to(6), numbers_to(1)
    ([2, 4, 6], [])
    """
    powers = [2**power for power in range(1, 13) if 2**power <= most]
    return sorted({*powers, *([most] if most > 1 else [])})


def wrapped_request(evidence: Evidence, question: DevicesQuestion) -> TimeWrapped | None:
    """The request for one process with DistributedDataParallel, at the batch in question or what of it fits."""
    size = question.largest_batch or question.batch_size
    return question.wrapped(size, find_unused=bool(evidence.facts.unused_parameters))


def ranks_request(evidence: Evidence, question: DevicesQuestion, num_devices: int) -> TimeRanks:
    """The request for so many devices, with the buckets of the one that was timed."""
    facts, fitting = evidence.alone.get(question.batch_size, evidence.facts), max(evidence.alone)
    buckets = buckets_of(facts.gradient_bytes, facts.ready_seconds, question.bucket_cap_mb)
    shared, rest = divmod(question.batch_size, num_devices)
    strong = (
        [shared] if "strong" in question.scalings and rest == 0 and min(evidence.alone) <= shared <= fitting else []
    )
    weak = [question.batch_size] if "weak" in question.scalings and question.batch_size <= fitting else []
    return question.ranks(
        num_devices,
        sorted({*strong, *weak}) or [min(fitting, max(1, shared))],
        [bucket.num_bytes for bucket in buckets],
        find_unused=bool(facts.unused_parameters),
    )
