"""What a logbook says about loading, read once: the search and the advice both stand on it."""

import statistics
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from legroom.errors import NothingMeasured
from legroom.laws.loading import WORKER_BYTES, LoaderLaw, core_ceiling, fit_loader_law, most_workers_in_memory
from legroom.laws.ranking import join_rounds, mean_pace, pick_cheapest
from legroom.logbook import Entry, Records
from legroom.questions.loading.records import (
    ColdRead,
    ComparedLoaders,
    CompareLoaders,
    LoaderSettings,
    LoaderThroughput,
    LoadingQuestion,
    ReadCold,
)

FELL = 0.93
"""Below that share of the choice's throughput, more workers have fallen behind it by more than noise."""
EXPLAINED = 0.9
"""A law that gives the choice less than that share of what it reached does not explain the fall."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What was measured for one question, so far or in all."""

    question: LoadingQuestion
    step: LoaderThroughput
    """The step alone, on batches that already lie on the device."""
    alone: dict[int, LoaderThroughput]
    """The loader without the step, by its number of workers."""
    together: list[LoaderThroughput]
    """Loaders with the step; one that ran in several comparisons is there as often."""
    failed: list[LoaderThroughput]
    rounds: list[dict[LoaderSettings, float]]
    """Samples per second of loaders with the step, round by round."""
    last_spread: float
    """By how much turns of one setting differed in the last comparison, as a share."""
    cold: ColdRead | None

    @cached_property
    def ranked(self) -> dict[LoaderSettings, float]:
        """Samples per second with the step, of all comparisons on one scale: what settings are ranked by."""
        return join_rounds(self.rounds)

    @cached_property
    def throughputs(self) -> dict[LoaderSettings, float]:
        """The same as it is told: slower by what all turns together lost."""
        pace = mean_pace(self.rounds, self.ranked)
        return {settings: pace * ranked for settings, ranked in self.ranked.items()}

    @cached_property
    def chosen(self) -> LoaderSettings:
        """The loader to use: the cheapest within 2 % of the best. All of the answer is about this one.

        BLAS threads left alone are compared for a note only; where every worker gives all samples, a second one would
        only repeat what the first gives.
        """
        usable = {settings: one for settings, one in self.ranked.items() if settings.blas_threads is not None}
        if self.repeats_samples:
            usable = {settings: one for settings, one in usable.items() if settings.num_workers <= 1} or usable
        return pick_cheapest(usable, cost=loader_cost)

    @property
    def device_throughput(self) -> float:
        """Samples per second that the device takes, over all turns: no less than it took in any comparison."""
        alone = statistics.fmean(self.step.samples_per_batch / seconds for seconds in self.step.batch_seconds)
        return max(alone, *self.throughputs.values())

    @property
    def workers(self) -> dict[int, LoaderThroughput]:
        """The loader alone, by its number of workers; empty where not even one can run."""
        return {num: one for num, one in self.alone.items() if num} if 1 in self.alone else {}

    @property
    def law(self) -> LoaderLaw | None:
        """The law of the loader alone, on cores that also compute or launch the step; None where no worker ran."""
        if not self.workers:
            return None
        one = self.workers[1]
        seconds = [one.worker_cpu_seconds, one.main_cpu_seconds, self.step.main_cpu_seconds]
        ceiling = core_ceiling(self.question.num_cores, one.samples_per_batch, seconds)
        return fit_loader_law({num: each.samples_per_second for num, each in self.workers.items()}, ceiling)

    @cached_property
    def by_count(self) -> dict[int, float]:
        """Samples per second with the step, of the fastest setting of each number of workers."""
        counts = sorted({settings.num_workers for settings in self.ranked})
        return {num: max(one for settings, one in self.ranked.items() if settings.num_workers == num) for num in counts}

    def law_with_step(self, most: int) -> LoaderLaw:
        """The law through one worker alone and all counts up to so many that ran with the step."""
        compared = {num: throughput for num, throughput in self.by_count.items() if 1 < num <= most}
        return fit_loader_law({1: self.workers[1].samples_per_second} | compared)

    @property
    def falls_at(self) -> int | None:
        """The next number of workers above the choice, where throughput falls there by more than turns differ."""
        chosen = self.chosen.num_workers
        above = next((num for num in self.by_count if num > chosen), None)
        enough = min(FELL, 1 - self.last_spread) * self.by_count[chosen]
        return above if chosen and above and self.by_count[above] < enough else None

    @property
    def cliff(self) -> int | None:
        """The same where the law does not explain the fall.

        Full cores and queues are in the law. Full shared memory, a lock or a cache that overflows are not.
        """
        if self.falls_at is None or not self.workers:
            return None
        chosen = self.chosen.num_workers
        by_law = self.law_with_step(max(self.by_count)).samples_per_second(chosen)
        return self.falls_at if by_law < EXPLAINED * self.by_count[chosen] else None

    @property
    def repeats_samples(self) -> bool:
        """Whether every worker of an iterable data set gives all samples."""
        return any(one.repeats_samples for one in [*self.alone.values(), *self.together])

    @property
    def worker_bytes(self) -> int:
        """What a worker holds for itself; a usual size where none could be looked at."""
        return (
            max((one.worker_private_bytes for one in [*self.alone.values(), *self.together]), default=0) or WORKER_BYTES
        )

    def most_in_memory(
        self, *, worker_bytes: int | None = None, batch_factor: int = 1, prefetch_factor: int = 2
    ) -> int:
        """The most workers for each device that memory holds, at a batch so many times the one asked for."""
        return most_workers_in_memory(
            self.question.available_bytes,
            self.question.shm_bytes,
            worker_bytes=self.worker_bytes if worker_bytes is None else worker_bytes,
            batch_bytes=batch_factor * self.step.batch_bytes,
            prefetch_factor=prefetch_factor,
            num_devices=self.question.num_devices,
        )

    @property
    def most_workers(self) -> int:
        """The most that are worth trying: fewer than any that failed."""
        fewer = [one.lane.num_workers - 1 for one in self.failed]
        return max(0, min([self.question.most_workers, self.most_in_memory(), *fewer])) if self.workers else 0


def loader_cost(settings: LoaderSettings) -> tuple[int, int, bool, bool]:
    """What a loader costs: processes first, then batches held, then settings that are not ours."""
    return settings.num_workers, settings.prefetch_factor, settings.blas_threads is None, not settings.pin_memory


def read_evidence(records: Records, question: LoadingQuestion) -> Evidence:
    """What the records say about the question; the step alone must be among them."""
    found: dict[str, list[Any]] = {"step": [], "load": [], "together": [], "cold": []}
    for entry in _entries(records, question):
        found[_what(entry)].append(entry.result)
    if not found["step"]:
        raise NothingMeasured("No loader was measured. legroom loading measures some")
    ran: list[ComparedLoaders] = [compared for compared in found["together"] if compared.rounds]
    return Evidence(
        question=question,
        step=found["step"][-1].lanes[0],
        alone={one.lane.num_workers: one for compared in found["load"] for one in compared.measured},
        together=[one for compared in ran for one in compared.measured],
        failed=[one for compared in [*found["load"], *found["together"]] for one in compared.failed],
        rounds=[one for compared in ran for one in compared.rounds],
        last_spread=statistics.median(one.spread for one in ran[-1].measured) if ran else 0.0,
        cold=found["cold"][-1] if found["cold"] else None,
    )


def _entries(records: Records, question: LoadingQuestion) -> list[Entry]:
    """The entries about the question; a run that measured the step itself did not go on from those of earlier runs."""
    asked = (CompareLoaders, ReadCold)
    found = [one for one in records.entries if isinstance(one.request, asked) and question.is_about(one.request)]
    own = [one for one in found if one.run == records.head.run]
    return own if any(_what(one) == "step" for one in own) else found


def _what(entry: Entry) -> str:
    return entry.request.what if isinstance(entry.request, CompareLoaders) else "cold"
