"""Finds the largest batch within a cap of GPU memory: at most three sizes, the last near the limit, then the proof."""

from collections.abc import Mapping
from dataclasses import replace

from legroom.errors import UsageError
from legroom.laws.memory import Line, MemoryLaw, fit_memory
from legroom.questions.memory.gaps import leaves_gaps, narrow
from legroom.questions.memory.host_search import SMALLEST, ceilings, measure_typical, smallest_of_all
from legroom.questions.memory.proofs import Aim, ask_peaks, prove, within
from legroom.questions.memory.records import PROOF_STEPS, MemoryQuestion
from legroom.requests import CardMemory, JobDescription, ReadCard
from legroom.session import Session
from legroom.units import format_bytes

FIRST = 8
MIDDLE = 0.5
"""Share of the cap that the second size may take if all of the first one's memory were its samples'."""
NEAR = 0.93
"""Share of the estimate at which the third size is measured: what is left to extrapolate is a fourteenth."""
FURTHEST = 40
"""A third size is at most this many times the second: from 34 samples nobody foretells 1,600."""
STEP_BYTES = 8 * 2**20
GOOD_GAP = 0.02
RETREAT = 0.985


def find_largest_card_batch(session: Session, question: MemoryQuestion, description: JobDescription) -> None:
    """Measure until the batches are proved; the logbook then holds the answer."""
    ceiling, eval_ceiling = ceilings(question, description)
    points, failed = _three_sizes(session, question, ceiling)
    if description.uneven:
        measure_typical(session, question, points)
    law, seen = fit_memory(points), points[-1][0]
    share = within(question.budget_bytes)
    training = Aim(
        law, seen=seen, ceiling=ceiling, failed=failed, good_gap=GOOD_GAP, shares=(share, share), retreat=RETREAT
    )
    evaluation = law.only("evaluation")
    evaluating = Aim(
        evaluation, seen=seen, ceiling=eval_ceiling, failed=None, good_gap=0.2, shares=(0.85, 0.8), retreat=0.9
    )
    if failed is not None or (leaves_gaps(points[-1][1]) and training.aim(question.budget_bytes) < ceiling):
        question = narrow(session, question, training)
    prove(session, question, training, evaluating)


def read_budget(session: Session, question: MemoryQuestion, description: JobDescription) -> MemoryQuestion:
    """The question with the bytes torch may reserve on this card: what was named, or all that is free."""
    session.progress("reading the card", 0.05)
    card = session.ask(ReadCard())
    assert isinstance(card, CardMemory)
    if question.budget_bytes > card.free_bytes:
        raise UsageError(
            f"{format_bytes(question.budget_bytes)} is more than {card.name} has free: "
            f"{format_bytes(card.free_bytes)} of {format_bytes(card.total_bytes)}, other processes and the CUDA "
            "context taken off. Name less with --memory"
        )
    budget = question.budget_bytes or card.free_bytes
    return replace(question, budget_bytes=budget - question.bucket_bytes(description.num_trainable))


Points = list[tuple[int, Mapping[str, int]]]


def _three_sizes(session: Session, question: MemoryQuestion, ceiling: int) -> tuple[Points, int | None]:
    """Peaks at a small size, a middle one and one near the limit; and the size that ran out of memory, if one did."""
    points: Points = []
    size, failed = min(FIRST, ceiling), None
    while len(points) < 3:
        session.progress(f"batch of {size:,}", 0.1 + 0.1 * len(points))
        peaks = ask_peaks(session, question.request(size, num_steps=PROOF_STEPS if len(points) == 2 else 3))
        if peaks.outcome == "measured":
            points = sorted([*points, (size, peaks.phase_bytes)], key=lambda point: point[0])
        elif not points and size > SMALLEST:
            size, failed = SMALLEST, size
            continue
        elif not points:
            return [smallest_of_all(session, question, peaks)], size
        else:
            return points, size
        size = min(ceiling, next_card_size(points, question.budget_bytes))
        is_near = size <= 1.05 * points[-1][0] if len(points) > 1 else size == points[0][0]
        if is_near or (failed is not None and size >= failed):
            break
    return points, failed


def next_card_size(points: Points, cap_bytes: int) -> int:
    """The middle size after the first one, or half the first where that takes much already; the near one after that.

    >>> next_card_size([(8, {"backward": 2**30})], 16 * 2**30)
    64
    >>> next_card_size([(8, {"backward": 8 * 2**20}), (64, {"backward": 64 * 2**20})], 2**30)
    833
    """
    size, phases = points[-1]
    if len(points) == 1:
        middle = int(MIDDLE * cap_bytes / max(phases.values()) * size)
        return middle if middle >= 2 * size else max(SMALLEST, size // 2)
    # Workspaces come in steps: what they may have hidden from the slope so far is counted as if it were its own.
    hidden = STEP_BYTES / (size - points[-2][0])
    law = fit_memory(points)
    steeper = MemoryLaw(tuple(Line(line.fixed_bytes, line.bytes_per_sample + hidden) for line in law.lines))
    return min(FURTHEST * size, int(NEAR * steeper.largest_batch(cap_bytes)))
