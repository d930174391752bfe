"""What a logbook holds about a question: peaks that were measured, batches that were proved, steps that were traced."""

from dataclasses import dataclass

from legroom.environments import Allocator
from legroom.errors import DoesNotFit
from legroom.laws.memory import MemoryLaw, Points, fit_memory
from legroom.logbook import Records
from legroom.questions.memory.allocator.estimate import MemoryEstimate
from legroom.questions.memory.answer import as_run
from legroom.questions.memory.records import MemoryQuestion, PhasePeaks, StepPeaks, TraceMemory
from legroom.requests import JobDescription
from legroom.units import format_bytes

Measured = tuple[StepPeaks, PhasePeaks]


@dataclass(frozen=True, slots=True)
class Evidence:
    """The entries that bear on one question; the search and the advice both stand on them."""

    question: MemoryQuestion
    description: JobDescription
    measured: list[Measured]
    """Probes and proofs, in the order in which they ran."""
    traced: list[tuple[TraceMemory, MemoryEstimate]]

    def points(self, samples: str = "worst") -> Points:
        """Batch sizes and peaks that the law goes through, smallest first.

        Proofs and sizes run anew are no part of it: those ran with another setting of the allocator.
        """
        points = [
            (request.batch_size, result.phase_bytes)
            for request, result in self.measured
            if not (request.proof or request.anew) and request.samples == samples and result.outcome == "measured"
        ]
        return sorted(points, key=lambda point: point[0])

    def law(self, samples: str = "worst") -> MemoryLaw:
        """The law through these points."""
        return fit_memory(self.points(samples))

    def proved(self) -> Measured:
        """The largest batch that ran in a fresh process and fits."""
        fitting = [
            (request, result)
            for request, result in self.measured
            if request.proof and request.accumulation_steps == 1 and result.fits(self.question.budget_bytes)
        ]
        if not fitting:
            raise DoesNotFit(
                f"No batch could be proved to fit {format_bytes(self.question.budget_bytes)}: every one tried took "
                "more. Raise --memory"
            )
        return max(fitting, key=lambda pair: pair[0].batch_size)

    def proved_evaluation(self) -> int:
        """The largest evaluation batch that ran; the training batch's own evaluation pass is proved in any case."""
        sizes = [
            request.eval_batch_size
            for request, result in self.measured
            if request.proof and request.eval_batch_size
            if 0 < result.evaluation_bytes() <= self.question.budget_bytes
        ]
        return max([*sizes, self.proved()[0].batch_size])

    def proved_passes(self, allocator: Allocator, below: int) -> int:
        """The largest batch below that size which ran with gradients held between passes; 0 if none did."""
        sizes = [
            request.batch_size
            for request, result in self.measured
            if request.accumulation_steps > 1 and result.fits(self.question.budget_bytes)
            if request.batch_size < below and request.allocator == allocator
        ]
        return max(sizes, default=0)

    def estimates(self, *, samples: str = "worst", passes: int = 1) -> dict[str, MemoryEstimate]:
        """The newest estimate of each precision."""
        return {
            request.precision: estimate
            for request, estimate in self.traced
            if (request.samples, request.accumulation_steps) == (samples, passes)
        }


def gather(records: Records, question: MemoryQuestion) -> Evidence:
    """Read the logbook's entries for the question."""
    measured: list[Measured] = []
    traced: list[tuple[TraceMemory, MemoryEstimate]] = []
    for entry in records.entries:
        request, result = entry.request, entry.result
        if isinstance(request, StepPeaks) and _bears_on(request, question):
            measured.append((request, result))
        if isinstance(request, TraceMemory) and request.capability == question.capability:
            traced.append((request, MemoryEstimate.from_record(result.estimate)))
    return Evidence(question, records.description(), measured, traced)


def _bears_on(request: StepPeaks, question: MemoryQuestion) -> bool:
    """Whether it ran on the device, in the precision and under the cap in question, and a proof as the run will."""
    if (request.device, request.precision) != (question.device, question.precision):
        return False
    if request.cap_bytes not in (None, question.budget_bytes):
        return False
    in_loop = question.device == "cpu" and request.proof
    has_workers = not in_loop or request.num_workers == question.num_workers
    return has_workers and (not request.proof or as_run(request) == as_run(question))
