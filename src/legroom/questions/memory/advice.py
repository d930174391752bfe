"""How large a batch fits: read off the proofs in a logbook, with the law behind them."""

from typing import Any

from legroom.errors import DoesNotFit
from legroom.laws.memory import LARGEST_BATCH, UNBOUNDED, split_batch
from legroom.logbook import Records
from legroom.questions.base import Recommendation
from legroom.questions.memory.answer import MemoryAnswer, Split, answer_of
from legroom.questions.memory.estimate_advice import WITH_ALLOCATOR, advise_estimate
from legroom.questions.memory.evidence import Evidence, Measured, gather
from legroom.questions.memory.records import MemoryQuestion, PhasePeaks, StepPeaks
from legroom.questions.memory.thesis import advise_thesis
from legroom.units import format_bytes, format_share

HEAP_TAIL = (1.08, 1.18)
"""Of 20 runs of 100 steps of one batch, two took so many times what the others did, which a proof of ten steps does not
see (validation/2026-11-18-two-cores-host-memory): how a heap fills is chance."""
OUTSIDE_BYTES = 256 * 2**20
"""Libraries load kernels outside torch as a job runs; more than this is the job's own doing."""


def advise(records: Records, question: MemoryQuestion) -> MemoryAnswer:
    """The answer that the logbook's entries hold."""
    seen = gather(records, question)
    if question.rule == "thesis":
        return advise_thesis(records, seen)
    return _advise_measured(records, seen) if question.is_here else advise_estimate(records, seen)


def _advise_measured(records: Records, seen: Evidence) -> MemoryAnswer:
    question, description = seen.question, seen.description
    request, peaks = seen.proved()
    law, phases = seen.law(), peaks.training_phases()
    largest, line = request.batch_size, law.line_at(request.batch_size)
    allowed = law.largest_batch(question.budget_bytes)
    high = max(largest, allowed) if allowed < UNBOUNDED else largest
    return answer_of(
        records,
        question,
        largest,
        split=_split(seen, request),
        notes=_notes(seen, (request, peaks), high),
        not_measured=_not_measured(seen),
        recommendations=[_recommend(question, request, peaks, high)],
        typical_batch_size=_typical(seen) if description.uneven else None,
        eval_batch_size=seen.proved_evaluation(),
        range=(largest, high),
        bytes_per_sample=line.bytes_per_sample,
        fixed_bytes=line.fixed_bytes,
        peak_bytes=peaks.training_bytes(),
        peak_phase=max(phases, key=lambda name: phases[name]),
        verified=not peaks.growth_bytes,
        estimate=False,
        num_ooms=sum(result.outcome == "out_of_memory" for _, result in seen.measured),
        allocator=None if question.device == "cpu" else request.allocator,
        probes=[_probe(question, *pair) for pair in seen.measured],
    )


def _split(seen: Evidence, proved: StepPeaks) -> Split:
    """The split of the batch asked for: one pass where it fits, else the largest micro-batch proved with several."""
    wanted = seen.question.effective_batch
    if wanted is None:
        return None, None
    if wanted <= proved.batch_size:
        return wanted, 1
    largest = seen.proved_passes(proved.allocator, below=wanted)
    if not largest:
        raise DoesNotFit("No micro-batch could be proved while gradients are held between passes. Raise --memory")
    return split_batch(wanted, largest)


def _not_measured(seen: Evidence) -> list[str]:
    sentences = []
    if seen.question.num_devices > 1:
        sentences.append("NCCL's own buffers: they lie outside torch, so leave some memory of each card free")
    if seen.description.uneven:
        sentences.append("typical batches were measured, not proved")
    return sentences


def _typical(seen: Evidence) -> int | None:
    if not seen.points("typical"):
        return None
    found = seen.law("typical").largest_batch(seen.question.budget_bytes)
    return found if found < UNBOUNDED else None


def _notes(seen: Evidence, best: Measured, high: int) -> list[str]:
    question, (proved, peaks) = seen.question, best
    notes = [*_growth_note(peaks, question), *_data_notes(seen, proved.batch_size, high)]
    if peaks.loader_bytes:
        held = format_bytes(peaks.loader_bytes)
        notes.append(f"The job's {question.num_workers} loader processes held up to {held} of the budget")
    if question.device != "cpu":
        notes.append(f"Proved {WITH_ALLOCATOR[proved.allocator]}")
    elif peaks.training_bytes() * HEAP_TAIL[1] > question.budget_bytes:
        least, most = (f"{times - 1:.0%}" for times in HEAP_TAIL)
        notes.append(
            f"How a heap fills is chance: about one run in ten takes {least} to {most} more than its proof. Where "
            "nothing may pass the budget, name so much less with --memory"
        )
    outside = max((result.outside_bytes for _, result in seen.measured), default=0)
    if outside > OUTSIDE_BYTES:
        notes.append(f"The job holds {format_bytes(outside)} of the card outside torch, which no cap on torch bounds")
    if proved.batch_size == LARGEST_BATCH:
        notes.append(f"Batches above {LARGEST_BATCH:,} were not tried")
    if seen.description.own_loader:
        widest = seen.description.widest_batch
        limit = f"; it gives none above {widest:,}" if widest else ""
        notes.append(f"Batches came from the job's own loader, as it gives them{limit}")
    return notes


def _data_notes(seen: Evidence, largest: int, high: int) -> list[str]:
    """What the data set means for the answer."""
    description, notes = seen.description, []
    limit = description.num_samples
    if seen.question.up_to_data and limit is not None and largest >= limit:
        more = f"; memory would hold about {high:,}" if high > limit else ""
        notes.append(f"All {limit:,} samples of the data set fit into one batch{more}")
    elif limit is not None and largest > limit:
        notes.append(f"The data set has {limit:,} samples, fewer than memory allows; probes repeated them")
    if description.uneven:
        small, _, large = description.sample_bytes
        notes.append(
            f"Samples differ in size ({format_bytes(small)} to {format_bytes(large)} of {description.num_scanned:,} "
            "looked at); the answer is for a batch of the largest"
        )
    return notes


def _growth_note(peaks: PhasePeaks, question: MemoryQuestion) -> list[str]:
    if not peaks.growth_bytes:
        return []
    num_left = (question.budget_bytes - peaks.training_bytes()) // peaks.growth_bytes
    return [
        f"The job's memory grew by {format_bytes(peaks.growth_bytes)} with every step and had not settled after "
        f"{peaks.num_repeats}: at this batch it passes {format_bytes(question.budget_bytes)} after about "
        f"{peaks.num_repeats + num_left:,} steps, so nothing is proved for a longer run. Look for what it keeps from "
        "step to step, such as losses that are added up with their graphs"
    ]


def _recommend(question: MemoryQuestion, request: StepPeaks, peaks: PhasePeaks, high: int) -> Recommendation:
    passes = "an evaluation pass" if request.num_workers is None else "evaluation passes"
    return Recommendation(
        name="max_batch_size",
        value=request.batch_size,
        range=(request.batch_size, high),
        because=(
            f"{peaks.num_repeats} training steps and {passes} of {request.batch_size:,} took "
            f"{format_share(peaks.training_bytes(), question.budget_bytes)} in a fresh process"
        ),
        evidence=["step_peaks"],
    )


def _probe(question: MemoryQuestion, request: StepPeaks, result: PhasePeaks) -> dict[str, Any]:
    return {
        "batch_size": request.batch_size,
        "eval_batch_size": request.eval_batch_size,
        "samples": request.samples,
        "proof": request.proof,
        "accumulation_steps": request.accumulation_steps,
        "allocator": request.allocator,
        "outcome": result.outcome,
        "peak_bytes": result.training_bytes(),
        "phase_bytes": dict(result.phase_bytes),
        "spread": result.spread,
        "num_repeats": result.num_repeats,
        "step_seconds": result.step_seconds,
        "fits": result.fits(question.budget_bytes),
        "growth_bytes": result.growth_bytes,
        "loader_bytes": result.loader_bytes,
        "num_workers": request.num_workers,
    }
