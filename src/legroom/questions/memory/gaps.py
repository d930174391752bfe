"""Where few huge blocks leave gaps that no law of the batch foresees: sizes tried in one process, with both allocators.

A model is built anew for each size, so that it meets what a fresh process meets: a second or two a size, not ten. What
runs there is proved like any other.
"""

from collections.abc import Mapping
from dataclasses import replace

from legroom.laws.memory import UNBOUNDED
from legroom.questions.memory.host_search import SMALLEST
from legroom.questions.memory.proofs import Aim, ask_peaks, within
from legroom.questions.memory.records import PROOF_STEPS, MemoryQuestion
from legroom.session import Session

GAPS = 1.06
"""Reserved over handed out near the limit from which blocks leave gaps: 1.04 at most in networks of many small blocks,
1.10 and more in those of few huge ones."""
BACK = 0.95
"""Share of a size that did not run to try next."""
CLOSE = 0.01
"""Share of a size to which the largest that runs is sought."""


def leaves_gaps(phases: Mapping[str, int]) -> bool:
    """Whether much of what torch holds cannot be handed out."""
    return phases["reserved"] > GAPS * max(value for name, value in phases.items() if name != "reserved")


def narrow(session: Session, question: MemoryQuestion, training: Aim) -> MemoryQuestion:
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
    return question


def _most_in_fixed(session: Session, fixed: MemoryQuestion, size: int) -> int:
    """The largest size in fixed segments, by what one size takes from the card: it grows in proportion; 0 if unknown.

    535 samples of a word LSTM took 7.508 of 8 GiB, so 568 are expected: 568 ran, and 572 did not.
    """
    peaks = ask_peaks(session, fixed.request(size, num_steps=PROOF_STEPS, anew=True)) if size else None
    if peaks is None or peaks.outcome != "measured":
        return 0
    return int(size * within(fixed.budget_bytes) * fixed.budget_bytes / peaks.phase_bytes["reserved"])


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
