"""What a logbook holds about loading, read back as one set of evidence."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from legroom.errors import NothingMeasured
from legroom.laws.loading import LoaderLaw, core_ceiling, fit_loader_law, most_workers_in_memory
from legroom.laws.ranking import choose_loader, whole_time_rates
from legroom.logbook import Entry
from legroom.questions.loading.records import ColdRead, Lane, LaneRate, LoaderRates, LoadingQuestion, RaceLoaders


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What the entries of a logbook say about one question."""

    step: LaneRate
    load: dict[int, LaneRate]
    together: list[LaneRate]
    rates: dict[Lane, float]
    """Rates of all that were raced with the step, on one scale: samples over seconds of whole turns."""
    cold: ColdRead | None
    failed: list[LaneRate]

    @property
    def eats(self) -> float:
        """Samples per second that the device takes: no less than it took in any race."""
        alone = statistics.fmean(self.step.samples_per_batch / seconds for seconds in self.step.batch_seconds)
        return max(alone, *self.rates.values())

    @property
    def step_seconds(self) -> float:
        """Of a batch that already lies on the device, at that rate."""
        return self.step.samples_per_batch / self.eats

    @property
    def repeats_samples(self) -> bool:
        """Whether every worker of an iterable data set gives all samples."""
        return any(rate.repeats_samples for rate in [*self.load.values(), *self.together])

    @property
    def chosen(self) -> Lane:
        """The lane to use, as the search chose it: rate, shares and settings of the answer are all its own."""
        return choose_loader(self.rates, repeats_samples=self.repeats_samples)


def evidence_of(entries: Sequence[Entry], question: LoadingQuestion) -> Evidence:
    """The races of that question, read back."""
    seen: dict[str, list[LoaderRates]] = {"step": [], "load": [], "together": []}
    cold = None
    for entry in entries:
        request, result = entry.request, entry.result
        if isinstance(request, RaceLoaders) and isinstance(result, LoaderRates):
            if (request.device, request.batch_size) == (question.device, question.batch_size):
                seen[request.what].append(result)
        elif isinstance(result, ColdRead):
            cold = result
    if not seen["step"] or not seen["together"]:
        raise NothingMeasured("No loader was measured. legroom loading measures some")
    together = [rate for race in seen["together"] for rate in race.lanes]
    load = {rate.lane.num_workers: rate for race in seen["load"] for rate in _measured(race.lanes)}
    return Evidence(
        step=seen["step"][-1].lanes[0],
        load=load,
        together=_measured(together),
        rates=whole_time_rates([one for race in seen["together"] for one in race.rounds]),
        cold=cold,
        failed=[
            rate for race in (*seen["load"], *seen["together"]) for rate in race.lanes if rate.outcome != "measured"
        ],
    )


def _measured(race: Iterable[LaneRate]) -> list[LaneRate]:
    return [rate for rate in race if rate.outcome == "measured"]


def law_of(seen: Evidence, question: LoadingQuestion) -> LoaderLaw | None:
    """The law of the loader, on cores that also compute or launch the step; None where no worker ran."""
    rates = {num: rate.samples_per_second for num, rate in seen.load.items() if num}
    if 1 not in rates:
        return None
    one = seen.load[1]
    seconds = [one.worker_cpu_seconds, one.main_cpu_seconds, seen.step.main_cpu_seconds]
    return fit_loader_law(rates, core_ceiling(question.num_cores, one.samples_per_batch, seconds))


def most_workers(
    seen: Evidence, question: LoadingQuestion, worker_bytes: int, factor: int, prefetch_factor: int
) -> int:
    """The most workers for each device that memory holds, at a batch so many times the one asked for."""
    return most_workers_in_memory(
        question.available_bytes,
        question.shm_bytes,
        worker_bytes=worker_bytes,
        batch_bytes=factor * seen.step.batch_bytes,
        prefetch_factor=prefetch_factor,
        num_devices=question.num_devices,
    )
