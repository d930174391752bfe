"""The largest batch by the thesis' rule, for comparison with ours on the same job."""

from collections.abc import Sequence

from legroom.errors import DoesNotFit
from legroom.laws.thesis import DEDUCTIONS, NUM_STEPS, SIZES, thesis_batch
from legroom.logbook import Entry, Records
from legroom.questions.base import Recommendation
from legroom.questions.memory.advice import settings_of
from legroom.questions.memory.answer import MemoryAnswer
from legroom.questions.memory.records import MemoryQuestion, PhasePeaks, StepPeaks


def advise_thesis(records: Records, question: MemoryQuestion) -> MemoryAnswer:
    """Its answer, marked as the estimate it is, with its deductions beside it."""
    entries = records.entries
    description = records.description()
    reserved = [_reserved(entries, size) for size in SIZES]
    found = thesis_batch(reserved, question.budget_bytes)
    lower = [thesis_batch(reserved, question.budget_bytes - deduction) for deduction in DEDUCTIONS]
    slope = (reserved[1][-1] - reserved[0][-1]) / (SIZES[1] - SIZES[0])
    return MemoryAnswer(
        job=records.head.job,
        machine=records.head.machine,
        seconds=records.seconds(),
        notes=[f"With 1.0 GB taken off the memory, as the thesis advises: {lower[0]:,}; with 1.5 GB: {lower[1]:,}"],
        not_measured=["whether this batch fits: the rule does not try it", "the evaluation batch"],
        recommendations=[
            Recommendation(
                name="max_batch_size",
                value=found,
                range=(lower[1], found),
                because=f"a line through what torch reserved at batches of {SIZES[0]} and {SIZES[1]}",
                evidence=["phase_peaks"],
            )
        ],
        device=question.device,
        card=question.card,
        budget_bytes=question.budget_bytes,
        max_batch_size=found,
        data_limit=description.num_samples,
        typical_batch_size=None,
        eval_batch_size=None,
        range=(lower[1], found),
        bytes_per_sample=slope,
        fixed_bytes=reserved[0][-1] - slope * SIZES[0],
        peak_bytes=question.budget_bytes,
        peak_phase="",
        peak_parts={},
        verified=False,
        estimate=True,
        num_ooms=0,
        allocator="default",
        micro_batch_size=None,
        accumulation_steps=None,
        settings=settings_of(description, question, found, 1),
        baseline=dict(description.baseline),
        probes=[],
    )


def _reserved(entries: Sequence[Entry], size: int) -> list[int]:
    for entry in reversed(entries):
        request, result = entry.request, entry.result
        if not isinstance(request, StepPeaks) or not isinstance(result, PhasePeaks):
            continue
        if (request.allocator, request.batch_size, len(result.step_reserved_bytes)) == ("default", size, NUM_STEPS):
            return result.step_reserved_bytes
    raise DoesNotFit(f"A batch of {size} did not run, and the thesis' rule needs batches of {SIZES[0]} and {SIZES[1]}")
