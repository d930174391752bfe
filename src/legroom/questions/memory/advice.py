"""How large a batch fits: read off the proofs in a logbook, with the law behind them."""

from typing import Any

from legroom.environments import Allocator
from legroom.errors import DoesNotFit
from legroom.laws.memory import LARGEST_BATCH, UNBOUNDED, MemoryLaw, fit_memory, split_batch
from legroom.logbook import Records
from legroom.questions.base import Recommendation
from legroom.questions.memory.answer import MemoryAnswer
from legroom.questions.memory.records import MemoryQuestion, PhasePeaks, StepPeaks
from legroom.requests import JobDescription
from legroom.units import format_bytes, format_share

OUTSIDE_BYTES = 256 * 2**20
"""Libraries load kernels outside torch as a job runs; more than this is the job's own doing."""

WITH_ALLOCATOR = {
    "expandable": "with PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: set it where you train, or legroom train "
    "--allocator expandable",
    "default": "with torch's default allocator: few huge blocks leave gaps in segments that grow. Leave "
    "PYTORCH_CUDA_ALLOC_CONF unset where you train; legroom train takes --allocator default",
}
"""What a reader must know of the allocator that an answer rests on."""

Measured = list[tuple[StepPeaks, PhasePeaks]]


def advise_memory(records: Records, question: MemoryQuestion) -> MemoryAnswer:
    """The answer that the logbook's entries hold."""
    entries = records.entries
    description = records.description()
    measured = [
        (entry.request, entry.result)
        for entry in entries
        if isinstance(entry.request, StepPeaks) and isinstance(entry.result, PhasePeaks)
        if (entry.request.device, entry.request.precision) == (question.device, question.precision)
        if entry.request.cap_bytes in (None, question.budget_bytes)
        if not entry.request.proof or question.device != "cpu" or entry.request.num_workers == question.num_workers
    ]
    request, peaks = _best_proof(measured, question)
    law = law_of(measured, "worst")
    largest, line = request.batch_size, law.line_at(request.batch_size)
    allowed = law.largest_batch(question.budget_bytes)
    high = max(largest, allowed) if allowed < UNBOUNDED else largest
    micro, steps = _micro_batch(measured, question, largest, request.allocator)
    return MemoryAnswer(
        job=records.head.job,
        machine=records.head.machine,
        seconds=records.seconds(),
        notes=[*records.notes, *description.notes, *_notes(description, question, measured, (request, peaks), high)],
        not_measured=_not_measured(question, description),
        recommendations=[_recommend(question, request, peaks, high)],
        device=question.device,
        card=question.card,
        budget_bytes=question.budget_bytes,
        max_batch_size=largest,
        data_limit=description.widest_batch or description.num_samples,
        typical_batch_size=_typical(measured, question) if description.uneven else None,
        eval_batch_size=_best_eval(measured, question, request),
        range=(largest, high),
        bytes_per_sample=line.bytes_per_sample,
        fixed_bytes=line.fixed_bytes,
        peak_bytes=peaks.training_bytes(),
        peak_phase=_fullest(peaks),
        peak_parts={},
        verified=not peaks.growth_bytes,
        estimate=False,
        num_ooms=sum(result.outcome == "out_of_memory" for _, result in measured),
        allocator=None if question.device == "cpu" else request.allocator,
        num_devices=question.num_devices,
        micro_batch_size=micro,
        accumulation_steps=steps,
        settings=settings_of(description, question, micro or largest, steps or 1),
        baseline=dict(description.baseline),
        probes=[_probe(question, *pair) for pair in measured],
    )


def settings_of(description: JobDescription, question: MemoryQuestion, size: int, steps: int) -> dict[str, Any]:
    """What to run: the job's own settings with the batch found and the precision it was found for."""
    found = {"batch_size": size, "accumulation_steps": steps, "precision": question.precision}
    return {**description.baseline, **found}


def _micro_batch(
    measured: Measured, question: MemoryQuestion, largest: int, allocator: Allocator
) -> tuple[int | None, int | None]:
    """The split of the batch asked for: one pass where it fits, else the largest micro-batch proved with several."""
    wanted = question.effective_batch
    if wanted is None:
        return None, None
    if wanted <= largest:
        return wanted, 1
    proved = [
        request.batch_size
        for request, result in measured
        if request.accumulation_steps > 1 and result.fits(question.budget_bytes) and request.batch_size < wanted
        if request.allocator == allocator
    ]
    if not proved:
        raise DoesNotFit("No micro-batch could be proved while gradients are held between passes. Raise --memory")
    return split_batch(wanted, max(proved))


def law_of(measured: Measured, samples: str) -> MemoryLaw:
    """The law through the probes; proofs and sizes run anew are left out: those ran with another allocator setting."""
    points = sorted(
        (request.batch_size, result.phase_bytes)
        for request, result in measured
        if not (request.proof or request.anew) and request.samples == samples and result.outcome == "measured"
    )
    return fit_memory(points)


def _best_proof(measured: Measured, question: MemoryQuestion) -> tuple[StepPeaks, PhasePeaks]:
    fitting = [
        (request, result)
        for request, result in measured
        if request.proof and request.accumulation_steps == 1 and result.fits(question.budget_bytes)
    ]
    if not fitting:
        raise DoesNotFit(
            f"No batch could be proved to fit {format_bytes(question.budget_bytes)}: every one tried took more. "
            "Raise --memory"
        )
    return max(fitting, key=lambda pair: pair[0].batch_size)


def _best_eval(measured: Measured, question: MemoryQuestion, proved: StepPeaks) -> int:
    """The largest evaluation batch proved; the training batch's own evaluation pass is proved in any case."""
    sizes = [
        request.eval_batch_size
        for request, result in measured
        if request.proof and request.eval_batch_size and 0 < result.evaluation_bytes() <= question.budget_bytes
    ]
    return max([*sizes, proved.batch_size])


def _fullest(peaks: PhasePeaks) -> str:
    """The phase of the peak."""
    phases = peaks.training_phases()
    return max(phases, key=lambda name: phases[name])


def _not_measured(question: MemoryQuestion, description: JobDescription) -> list[str]:
    sentences = []
    if question.num_devices > 1:
        sentences.append("NCCL's own buffers: they lie outside torch, so leave some memory of each card free")
    if description.uneven:
        sentences.append("typical batches were measured, not proved")
    return sentences


def _typical(measured: Measured, question: MemoryQuestion) -> int | None:
    if not any(request.samples == "typical" and result.phase_bytes for request, result in measured):
        return None
    found = law_of(measured, "typical").largest_batch(question.budget_bytes)
    return found if found < UNBOUNDED else None


def _notes(
    description: JobDescription,
    question: MemoryQuestion,
    measured: Measured,
    best: tuple[StepPeaks, PhasePeaks],
    high: int,
) -> list[str]:
    proved, peaks = best
    notes = _growth_note(peaks, question)
    largest = proved.batch_size
    limit = description.num_samples
    if question.up_to_data and limit is not None and largest >= limit:
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
    if peaks.loader_bytes:
        held = format_bytes(peaks.loader_bytes)
        notes.append(f"The job's {question.num_workers} loader processes held up to {held} of the budget")
    if question.device != "cpu":
        notes.append(f"Proved {WITH_ALLOCATOR[proved.allocator]}")
    outside = max((result.outside_bytes for _, result in measured), default=0)
    if outside > OUTSIDE_BYTES:
        notes.append(f"The job holds {format_bytes(outside)} of the card outside torch, which no cap on torch bounds")
    if largest == LARGEST_BATCH:
        notes.append(f"Batches above {LARGEST_BATCH:,} were not tried")
    if description.own_loader:
        limit_of_loader = f"; it gives none above {description.widest_batch:,}" if description.widest_batch else ""
        notes.append(f"Batches came from the job's own loader, as it gives them{limit_of_loader}")
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
    return Recommendation(
        name="max_batch_size",
        value=request.batch_size,
        range=(request.batch_size, high),
        because=(
            f"{peaks.num_repeats} training steps and {_passes(request)} of {request.batch_size:,} took "
            f"{format_share(peaks.training_bytes(), question.budget_bytes)} in a fresh process"
        ),
        evidence=["step_peaks"],
    )


def _passes(request: StepPeaks) -> str:
    return "an evaluation pass" if request.num_workers is None else "evaluation passes"


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
