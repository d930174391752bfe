"""Finds the largest batch within a cap of GPU memory: at most three sizes, the last near the limit, then the proof.

Where few huge blocks leave gaps that no law of the batch foresees, or memory grows in a step that none of the three
sizes showed, sizes are tried in one process, with both allocators. A model is built anew for each size, so that it
meets what a fresh process meets: a second or two a size, not ten. What runs there is proved like any other.
"""

from collections.abc import Mapping
from dataclasses import replace

from legroom.laws.memory import UNBOUNDED, Line, MemoryLaw, Points, fit_memory
from legroom.questions.memory.evidence import gather
from legroom.questions.memory.host_search import ceilings, measure_typical, try_one_sample
from legroom.questions.memory.proofs import MAX_PROOFS, SMALLEST, Aim, ask_peaks, prove
from legroom.questions.memory.records import PROOF_STEPS, MemoryQuestion
from legroom.session import Session

FIRST = 8
MIDDLE = 0.5
"""Share of the cap that the second size may take if all of the first one's memory were its samples'."""
NEAR = 0.93
"""Share of the estimate at which the third size is measured: what is left to extrapolate is a fourteenth."""
FURTHEST = 40
"""A third size is at most this many times the second: from 34 samples nobody foretells 1,600."""
STEP_BYTES = 8 * 2**20
SPARE_BYTES = 24 * 2**20
SPARE_SHARE = 0.004
"""Left free of a card by the first proof: growing segments take memory in steps of 2 and 20 MiB."""
GOOD_GAP = 0.02
RETREAT = 0.985
FEW_PROOFS, FAR = 2, 1.25
"""After so many proofs of which none ran, a size is sought as amid gaps, if the largest that ran is that far away."""
GAPS = 1.06
"""Reserved over handed out near the limit from which blocks leave gaps: 1.04 at most in networks of many small blocks,
1.10 and more in those of few huge ones."""
BACK = 0.95
"""Share of a size that did not run to try next."""
CLOSE = 0.01
"""Share of a size to which the largest that runs is sought."""


def find_on_card(session: Session, question: MemoryQuestion) -> None:
    """Measure until the batches are proved; the logbook then holds the answer."""
    ceiling, eval_ceiling = ceilings(session, question)
    failed = _three_sizes(session, question, ceiling)
    seen = gather(session.records, question)
    measure_typical(session, question, seen.points())
    law, tried = seen.law(), (seen.points(), question.budget_bytes)
    share = _within(question.budget_bytes)
    training = Aim(
        law, *tried, ceiling=ceiling, failed=failed, good_gap=GOOD_GAP, shares=(share, share), retreat=RETREAT
    )
    evaluating = Aim(
        law.only("evaluation"), *tried, ceiling=eval_ceiling, good_gap=0.2, shares=(0.85, 0.8), retreat=0.9
    )
    if failed is not None or (_leaves_gaps(seen.points()[-1][1]) and training.aim() < ceiling):
        question = _narrow(session, question, training)
    prove(session, question, training, evaluating, FEW_PROOFS)
    is_lost = not training.fits and training.failed > FAR * training.ran
    question = _narrow(session, question, training) if is_lost else question
    prove(session, question, training, evaluating, MAX_PROOFS if is_lost else MAX_PROOFS - FEW_PROOFS)


def _within(budget_bytes: int) -> float:
    """Share of a card's budget that a first proof may take."""
    return 1 - max(SPARE_SHARE, SPARE_BYTES / budget_bytes)


def _three_sizes(session: Session, question: MemoryQuestion, ceiling: int) -> int | None:
    """Measure a small size, a middle one and one near the limit; the size that ran out of memory, if one did."""
    points: Points = []
    size, failed = min(FIRST, ceiling), None
    while len(points) < 3:
        session.progress(f"batch of {size:,}", 0.1 + 0.1 * len(points))
        peaks = ask_peaks(session, question.request(size, num_steps=PROOF_STEPS if len(points) == 2 else 3))
        if peaks.outcome != "measured" and not points and size > SMALLEST:
            size, failed = SMALLEST, size
            continue
        if peaks.outcome != "measured":
            if not points:
                try_one_sample(session, question, peaks)
            return size
        points = gather(session.records, question).points()
        size = min(ceiling, next_card_size(points, question.budget_bytes))
        is_near = size <= 1.05 * points[-1][0] if len(points) > 1 else size == points[0][0]
        if is_near or (failed is not None and size >= failed):
            break
    return failed


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


def _leaves_gaps(phases: Mapping[str, int]) -> bool:
    """Whether much of what torch holds cannot be handed out."""
    return phases["reserved"] > GAPS * max(value for name, value in phases.items() if name != "reserved")


def _narrow(session: Session, question: MemoryQuestion, training: Aim) -> MemoryQuestion:
    """Close in on the largest size that runs without retries; the question with the allocator that runs it.

    A word LSTM's logits leave gaps in segments that grow, and less in fixed ones: 524 against 568 in 8 GiB. Larger
    sizes may run again (620 and 655 do, 580, 600 and 640 do not), since the first step has to give memory back there,
    which lays blocks out anew: not sought, as whoever then takes a rounder number below would meet the gap.
    """
    low = min(training.seen, training.failed - 1)
    high = min(training.failed, training.ceiling + 1, training.law.largest_batch(question.budget_bytes) + 1)
    fixed = replace(question, allocator="default")
    most = min(_most_in_fixed(session, fixed, _back(low)), training.ceiling)
    if most > low:
        session.warm(fixed.request(most, proof=True).environment or {})
        if most < high and _runs(session, question, most):
            low = most
        elif _runs(session, fixed, most):
            training.trusted, training.failed = most, UNBOUNDED
            return fixed
        else:
            high = min(high, most)
    training.trusted, training.failed = _close_in(session, question, low, high)
    training.num_blind = 0
    return question


def _most_in_fixed(session: Session, fixed: MemoryQuestion, size: int) -> int:
    """The largest size in fixed segments, by what one size takes from the card: it grows in proportion; 0 if unknown.

    535 samples of a word LSTM took 7.508 of 8 GiB, so 568 are expected: 568 ran, and 572 did not.
    """
    peaks = ask_peaks(session, fixed.request(size, num_steps=PROOF_STEPS, anew=True)) if size else None
    if peaks is None or peaks.outcome != "measured":
        return 0
    return int(size * _within(fixed.budget_bytes) * fixed.budget_bytes / peaks.phase_bytes["reserved"])


def _back(size: int) -> int:
    """A little less, but no less than batch norm can train on."""
    return max(min(SMALLEST, size), int(BACK * size))


def _close_in(session: Session, question: MemoryQuestion, low: int, high: int) -> tuple[int, int]:
    """A size that runs and one that does not, or is not expected to, a hundredth apart."""
    while low > SMALLEST and not _runs(session, question, low):
        low, high = _back(low), low
    while high - low > max(1, CLOSE * low):
        middle = (low + high) // 2
        low, high = (middle, high) if _runs(session, question, middle) else (low, middle)
    return low, high


def _runs(session: Session, question: MemoryQuestion, size: int) -> bool:
    session.progress(f"trying {size:,}", 0.7)
    return ask_peaks(session, question.request(size, num_steps=PROOF_STEPS, anew=True)).outcome == "measured"
