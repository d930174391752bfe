"""How large a batch should fit on a GPU that is not here, from a trace of its step; and what would make it fit."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

from legroom.errors import DoesNotFit
from legroom.host.cards import smallest_card, usable_bytes
from legroom.laws.memory import LARGEST_BATCH, split_batch
from legroom.logbook import Records
from legroom.questions.base import Recommendation
from legroom.questions.memory.allocator.estimate import MemoryEstimate
from legroom.questions.memory.answer import MemoryAnswer, Split, answer_of
from legroom.questions.memory.evidence import Evidence
from legroom.questions.memory.records import MemoryQuestion
from legroom.units import format_bytes, format_share

ERROR_SHARE = {"fake": 0.05, "real": 0.10}
"""Share around the estimate that is given as its range. Of 53 cells on an H200, 52 lay within it of the batch proved
(validation/2026-11-15-h200-memory; the rules had seen half of them); of the two by real steps one, 22 % too high."""
HOLED_SHARE = 0.10
"""The same where holes between blocks decide: there a few samples more can leave a heap that holds, or does not."""
WORTH_SAYING = 0.03
"""Share of a step's bytes that holes between its blocks must cost to be a reason."""
SHARDED = ("weights", "gradients", "optimizer")
WITH_ALLOCATOR = {
    "expandable": "with PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: set it where you train, or legroom train "
    "--allocator expandable",
    "default": "with torch's default allocator: few huge blocks leave gaps in segments that grow. Leave "
    "PYTORCH_CUDA_ALLOC_CONF unset where you train; legroom train takes --allocator default",
}
"""What a reader must know of the allocator that an answer rests on."""


def advise_estimate(records: Records, seen: Evidence) -> MemoryAnswer:
    """The answer that the traces hold; an error with remedies where not one sample fits."""
    question, description = seen.question, seen.description
    estimate = seen.estimates()[question.precision]
    budget = question.budget_bytes - question.bucket_bytes(description.num_trainable)
    largest = min(LARGEST_BATCH, description.widest_batch or LARGEST_BATCH, estimate.largest_batch(budget))
    if largest < 1:
        raise does_not_fit(seen)
    peak, line, span = estimate.train.peak(largest), estimate.train.line_at(largest), _span(estimate, largest)
    evaluation = estimate.evaluation.largest_batch(budget) if estimate.evaluation else largest
    return answer_of(
        records,
        question,
        largest,
        split=_split(seen, span[0], budget),
        notes=_notes(estimate, seen, budget),
        not_measured=["nothing ran on a GPU: this is an estimate, run the command on the card for a proof"],
        recommendations=[_recommend(question, largest, span, estimate)],
        typical_batch_size=_typical(seen, budget),
        eval_batch_size=min(evaluation, LARGEST_BATCH, description.widest_valid_batch or LARGEST_BATCH),
        range=span,
        bytes_per_sample=line.bytes_per_sample,
        fixed_bytes=line.fixed_bytes,
        peak_bytes=peak.num_bytes,
        peak_phase=peak.phase,
        peak_parts={name: size for name, size in peak.parts.items() if size},
        verified=False,
        estimate=True,
        allocator=estimate.allocator(budget),
    )


def _span(estimate: MemoryEstimate, largest: int) -> tuple[int, int]:
    """The batches among which the true limit is likely to lie."""
    share = max(ERROR_SHARE[estimate.method], HOLED_SHARE if _is_holed(estimate, largest) else 0)
    return max(1, int(largest * (1 - share))), int(largest * (1 + share)) + 1


def _split(seen: Evidence, sure: int, budget: int) -> Split:
    """Micro-batch and passes of the batch asked for; with several, gradients are held from pass to pass."""
    question = seen.question
    if question.effective_batch is None:
        return None, None
    several = seen.estimates(passes=2).get(question.precision)
    if question.effective_batch <= sure or several is None:
        return split_batch(question.effective_batch, sure)
    held = several.largest_batch(budget)
    if held < 1:
        raise DoesNotFit(
            f"One pass fits {format_bytes(question.budget_bytes)}, but not with the gradients held between passes "
            "(estimated). Name more memory, or leave --effective-batch out"
        )
    return split_batch(question.effective_batch, min(sure, _span(several, held)[0]))


def _typical(seen: Evidence, budget: int) -> int | None:
    found = seen.estimates(samples="typical").get(seen.question.precision)
    return min(LARGEST_BATCH, found.largest_batch(budget)) if found else None


def _notes(estimate: MemoryEstimate, seen: Evidence, budget_bytes: int) -> list[str]:
    notes = list(estimate.notes)
    if seen.question.num_devices > 1:
        taken = format_bytes(seen.question.bucket_bytes(seen.description.num_trainable))
        notes.append(f"{taken} of each card are left for buckets of gradients; NCCL's own buffers are not counted")
    if estimate.method == "real":
        notes.append(f"A real step on the CPU was traced, because {estimate.reason}")
    if seen.description.uneven:
        notes.append("Samples differ in size; the answer is for a batch of the largest")
    notes.append(f"Estimated {WITH_ALLOCATOR[estimate.allocator(budget_bytes)]}")
    return notes


def _recommend(
    question: MemoryQuestion, largest: int, span: tuple[int, int], estimate: MemoryEstimate
) -> Recommendation:
    peak = estimate.train.peak(largest)
    because = (
        f"estimated: the fullest moment ({peak.phase}) of a step of {largest:,} takes "
        f"{format_share(peak.num_bytes, question.budget_bytes)}"
    )
    if _is_holed(estimate, largest):
        needed = format_bytes(estimate.needed_bytes(largest))
        because += f"; torch's allocator needs {needed} for it, in which large blocks leave holes"
    return Recommendation(name="max_batch_size", value=largest, range=span, because=because, evidence=["traced_memory"])


def _is_holed(estimate: MemoryEstimate, batch_size: int) -> bool:
    """Whether less fits than the storages alone would let."""
    return estimate.needed_bytes(batch_size) > (1 + WORTH_SAYING) * estimate.train.peak(batch_size).num_bytes


@dataclass(frozen=True, slots=True)
class Remedy:
    """One change, and what the step would take with it."""

    what: str
    needed_bytes: int
    fits: bool


def does_not_fit(seen: Evidence) -> DoesNotFit:
    """The error that says by how much a step of one sample does not fit, and what would change that."""
    estimates, budget = seen.estimates(), seen.question.budget_bytes
    estimate = estimates[seen.question.precision]
    needed, needed_bytes = estimate.train.peak(1), estimate.needed_bytes(1)
    found = sorted(_remedies(estimate, estimates, budget), key=lambda remedy: not remedy.fits)
    lines = [
        f"  - {remedy.what} ({format_bytes(remedy.needed_bytes)}{'' if remedy.fits else ', still too much'})"
        for remedy in found
    ]
    return DoesNotFit(
        f"A training step on the smallest batch needs {format_bytes(needed_bytes)} (estimated; most of it in "
        f"{needed.phase}); the budget is {format_bytes(budget)}. What would change that, and what the "
        "step would then need:\n" + "\n".join(lines),
        facts={
            "needed_bytes": needed_bytes,
            "budget_bytes": budget,
            "peak_phase": needed.phase,
            "peak_parts": dict(needed.parts),
            "remedies": [asdict(remedy) for remedy in found],
        },
    )


def _remedies(estimate: MemoryEstimate, estimates: Mapping[str, MemoryEstimate], cap_bytes: int) -> Iterator[Remedy]:
    """Changes to a step of one sample; `estimates` has one for each precision traced."""
    parts, needed = estimate.train.peak(1).parts, estimate.needed_bytes(1)
    found: dict[str, float] = {}
    if "bf16" in estimates and estimates["bf16"].needed_bytes(1) < needed:
        found["bf16 autocast"] = estimates["bf16"].needed_bytes(1)
    if parts.get("activations"):
        found["activation checkpointing (at the very best)"] = needed - parts["activations"]
    if parts.get("optimizer"):
        found["an optimizer without state (plain SGD)"] = needed - parts["optimizer"]
    found |= _sharded(needed, sum(parts.get(name, 0) for name in SHARDED), cap_bytes)
    yield from (Remedy(what, int(size), size <= cap_bytes) for what, size in found.items())
    card = smallest_card(needed)
    if card is not None:
        yield Remedy(f"a larger card: {card} gives {format_bytes(usable_bytes(card))}", int(needed), True)


def _sharded(total: float, shared: float, cap_bytes: int) -> dict[str, float]:
    """Weights, gradients and optimizer state split over the fewest devices that make it fit."""
    for num_devices in (2, 4, 8, 16, 64):
        size = total - shared + shared / num_devices
        if size <= cap_bytes:
            break
    return {f"sharding (FSDP) over {num_devices} devices": size}
