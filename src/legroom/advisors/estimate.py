"""How large a batch should fit on a GPU that is not here, from a trace of the job's step."""

from collections.abc import Sequence

from legroom.advisors.memory import MemoryAnswer, description_of
from legroom.advisors.remedies import remedies
from legroom.errors import DoesNotFit
from legroom.laws.ledger import MemoryEstimate
from legroom.laws.memory import split_batch
from legroom.plan import Recommendation
from legroom.records import Entry, JobDescription, MemoryQuestion, TracedMemory, TraceMemory
from legroom.units import format_bytes

ERROR_SHARE = {"fake": 0.05, "real": 0.10}
"""How far estimates lay from what a card held, nine in ten of them: see validation/."""


def estimates_of(entries: Sequence[Entry], *, samples: str = "worst") -> dict[str, MemoryEstimate]:
    """The newest estimate of each precision."""
    return {
        entry.request.precision: MemoryEstimate.from_record(entry.result.estimate)
        for entry in entries
        if isinstance(entry.request, TraceMemory) and isinstance(entry.result, TracedMemory)
        if entry.request.samples == samples
    }


def advise_estimate(
    entries: Sequence[Entry],
    question: MemoryQuestion,
    *,
    job: str,
    machine: str,
    effective_batch: int | None = None,
    more_notes: Sequence[str] = (),
) -> MemoryAnswer:
    """The answer the traces hold; an error with remedies where not one sample fits."""
    description = description_of(entries)
    estimates = estimates_of(entries)
    estimate = estimates[question.precision]
    largest = estimate.largest_batch(question.budget_bytes)
    if largest < 1:
        raise does_not_fit(estimates, question)
    peak = estimate.train.peak(largest)
    share = ERROR_SHARE[estimate.method]
    span = (max(1, int(largest * (1 - share))), int(largest * (1 + share)) + 1)
    micro, steps = split_batch(effective_batch, span[0]) if effective_batch else (None, None)
    line = estimate.train.line_at(largest)
    evaluation = estimate.evaluation.largest_batch(question.budget_bytes) if estimate.evaluation else largest
    return MemoryAnswer(
        job=job,
        machine=machine,
        seconds=sum(entry.seconds for entry in entries),
        notes=[*more_notes, *_notes(estimate, description)],
        not_measured=["nothing ran on a GPU: this is an estimate, run the command on the card for a proof"],
        recommendations=[_recommend(question, largest, span, estimate)],
        device="cuda",
        budget_bytes=question.budget_bytes,
        max_batch_size=largest,
        data_limit=description.num_samples,
        typical_batch_size=_typical(entries, question),
        eval_batch_size=evaluation,
        range=span,
        bytes_per_sample=line.bytes_per_sample,
        fixed_bytes=line.fixed_bytes,
        peak_bytes=peak.num_bytes,
        peak_phase=peak.phase,
        peak_parts={name: size for name, size in peak.parts.items() if size},
        verified=False,
        estimate=True,
        num_ooms=0,
        micro_batch_size=micro,
        accumulation_steps=steps,
        settings={**description.baseline, "batch_size": micro or largest, "accumulation_steps": steps or 1},
        baseline=dict(description.baseline),
        probes=[],
    )


def _typical(entries: Sequence[Entry], question: MemoryQuestion) -> int | None:
    found = estimates_of(entries, samples="typical").get(question.precision)
    return found.largest_batch(question.budget_bytes) if found else None


def does_not_fit(estimates: dict[str, MemoryEstimate], question: MemoryQuestion, batch_size: int = 1) -> DoesNotFit:
    """The error that says by how much a step does not fit, and what would change that."""
    needed = estimates["fp32"].train.peak(batch_size)
    found = remedies(estimates, batch_size, question.budget_bytes)
    lines = [
        f"  - {remedy.what}: {format_bytes(remedy.needed_bytes)}{'' if remedy.fits else ', still too much'}"
        for remedy in found
    ]
    return DoesNotFit(
        f"A training step on the smallest batch needs {format_bytes(needed.num_bytes)} (estimated; most of it in "
        f"{needed.phase}); the budget is {format_bytes(question.budget_bytes)}. What it would need with:\n"
        + "\n".join(lines),
        facts={
            "needed_bytes": needed.num_bytes,
            "budget_bytes": question.budget_bytes,
            "peak_phase": needed.phase,
            "peak_parts": dict(needed.parts),
            "remedies": [{"what": r.what, "needed_bytes": r.needed_bytes, "fits": r.fits} for r in found],
        },
    )


def _notes(estimate: MemoryEstimate, description: JobDescription) -> list[str]:
    notes = list(estimate.notes)
    if estimate.method == "real":
        notes.append(f"A real step on the CPU was traced, because {estimate.reason}")
    if description.uneven:
        notes.append("Samples differ in size; the answer is for a batch of the largest")
    notes.append("It holds for PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; without it less fits")
    return notes


def _recommend(
    question: MemoryQuestion, largest: int, span: tuple[int, int], estimate: MemoryEstimate
) -> Recommendation:
    peak = estimate.train.peak(largest)
    return Recommendation(
        name="max_batch_size",
        value=largest,
        range=span,
        because=(
            f"estimated: the fullest moment ({peak.phase}) of a step of {largest:,} takes "
            f"{format_bytes(peak.num_bytes)} of {format_bytes(question.budget_bytes)}"
        ),
        evidence=["traced_memory"],
    )
