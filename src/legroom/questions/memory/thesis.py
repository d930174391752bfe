"""The largest batch by the thesis' rule, for comparison with ours on the same job: its two probes, and its answer."""

from collections.abc import Sequence

from legroom.errors import DoesNotFit
from legroom.laws.thesis import DEDUCTIONS, NUM_STEPS, SIZES, thesis_batch
from legroom.logbook import Records
from legroom.questions.base import Recommendation
from legroom.questions.memory.answer import MemoryAnswer, answer_of
from legroom.questions.memory.evidence import Evidence
from legroom.questions.memory.records import MemoryQuestion
from legroom.session import Session


def probe_thesis(session: Session, question: MemoryQuestion) -> None:
    """Reserved bytes over 20 steps at batches of 10 and 50 with the default allocator."""
    for share, size in enumerate(SIZES):
        session.progress(f"batch of {size}", 0.2 + 0.4 * share)
        # One after the other in fresh processes: what a first size left in the cache would count for the second.
        session.ask(question.request(size, num_steps=NUM_STEPS, allocator="default", proof=True))


def advise_thesis(records: Records, seen: Evidence) -> MemoryAnswer:
    """Its answer, marked as the estimate it is, with its deductions beside it."""
    budget = seen.question.budget_bytes
    reserved = [_reserved(seen, size) for size in SIZES]
    found = thesis_batch(reserved, budget)
    lower = [thesis_batch(reserved, budget - deduction) for deduction in DEDUCTIONS]
    slope = (reserved[1][-1] - reserved[0][-1]) / (SIZES[1] - SIZES[0])
    because = f"a line through what torch reserved at batches of {SIZES[0]} and {SIZES[1]}"
    return answer_of(
        records,
        seen.question,
        found,
        notes=[f"With 1.0 GB taken off the memory, as the thesis advises: {lower[0]:,}; with 1.5 GB: {lower[1]:,}"],
        not_measured=["whether this batch fits: the rule does not try it", "the evaluation batch"],
        recommendations=[
            Recommendation(
                name="max_batch_size",
                value=found,
                range=(lower[1], found),
                because=because,
                evidence=["phase_peaks"],
            )
        ],
        typical_batch_size=None,
        eval_batch_size=None,
        range=(lower[1], found),
        bytes_per_sample=slope,
        fixed_bytes=reserved[0][-1] - slope * SIZES[0],
        peak_bytes=budget,
        peak_phase="",
        verified=False,
        estimate=True,
        allocator="default",
    )


def _reserved(seen: Evidence, size: int) -> Sequence[int]:
    for request, result in reversed(seen.measured):
        if (request.allocator, request.batch_size, len(result.step_reserved_bytes)) == ("default", size, NUM_STEPS):
            return result.step_reserved_bytes
    raise DoesNotFit(f"A batch of {size} did not run, and the thesis' rule needs batches of {SIZES[0]} and {SIZES[1]}")
