"""Finds the largest batch within a budget of host memory: small sizes, a line, a jump near the limit, proofs."""

from legroom.errors import DoesNotFit, JobError
from legroom.laws.loading import WORKER_BYTES
from legroom.laws.memory import CLEAR_BYTES, LARGEST_BATCH, Points, fit_memory
from legroom.questions.memory.evidence import gather
from legroom.questions.memory.proofs import SMALLEST, Aim, ask_peaks, prove
from legroom.questions.memory.records import MemoryQuestion, PhasePeaks
from legroom.session import Session
from legroom.units import format_bytes

GROWTH = 8
JUMP = 0.7
"""Share of the room left at which the law is measured again: near enough to see it bend, far enough to be safe."""
SHARES = (0.95, 0.995)
"""Of the budget, for the first proof and later ones: the plain allocator holds about 5 % more than the steady one."""
EVAL_SHARES = (0.88, 0.85)
"""Lower: what training leaves in the heap is still held while the evaluation runs."""
GOOD_GAP = 0.04
"""A proof stands when the law sees room for no more than this share of further samples."""
GOOD_EVAL_GAP = 0.1
"""Evaluation takes a small share of a run: the last tenth of its batch is not worth another proof."""


def find_on_host(session: Session, question: MemoryQuestion) -> None:
    """Measure until the largest training and evaluation batches are proved; the logbook then holds the answer."""
    ceiling, eval_ceiling = ceilings(session, question)
    failed = _climb(session, question, ceiling)
    seen = gather(session.records, question)
    measure_typical(session, question, seen.points())
    law, tried = seen.law(), (seen.points(), question.budget_bytes)
    training = Aim(law, *tried, ceiling=ceiling, failed=failed, good_gap=GOOD_GAP, shares=SHARES)
    evaluating = Aim(law.only("evaluation"), *tried, ceiling=eval_ceiling, good_gap=GOOD_EVAL_GAP, shares=EVAL_SHARES)
    training.set_aside(question.num_workers * WORKER_BYTES)
    prove(session, question, training, evaluating)


def ceilings(session: Session, question: MemoryQuestion) -> tuple[int, int]:
    """Sizes above which nobody asks, for training and evaluation."""
    description = session.records.description()
    most = min(LARGEST_BATCH, question.most or LARGEST_BATCH)
    ceiling = min(most, description.widest_batch or most)
    eval_ceiling = min(most, description.widest_valid_batch or most)
    if not question.up_to_data:
        return ceiling, eval_ceiling
    num_samples = description.num_samples or LARGEST_BATCH
    return min(ceiling, num_samples), min(eval_ceiling, description.num_valid_samples or num_samples)


def _climb(session: Session, question: MemoryQuestion, ceiling: int) -> int | None:
    """Measure growing sizes until the law is known; the size that could not be run, if one was met."""
    size: int | None = SMALLEST
    points: Points = []
    while size is not None:
        session.progress(f"batch of {size:,}", min(0.4, 0.1 + 0.06 * len(points)))
        peaks = ask_peaks(session, question.request(size))
        if not points and (peaks.outcome != "measured" or peaks.training_bytes() > question.budget_bytes):
            try_one_sample(session, question, peaks)
            return SMALLEST
        if peaks.outcome != "measured":
            return size
        points = gather(session.records, question).points()
        size = next_size(points, question.budget_bytes, ceiling)
    return None


def next_size(points: Points, budget_bytes: int, ceiling: int) -> int | None:
    """The size to measure next; None when the law is known well enough."""
    last = points[-1][0]
    if max(points[-1][1].values()) > budget_bytes or last >= ceiling:
        return None
    rises = {name: value - points[0][1][name] for name, value in points[-1][1].items()}
    if max(rises.values()) >= CLEAR_BYTES:
        following = int(JUMP * fit_memory(points).largest_batch(budget_bytes))
        following = following if following > 1.5 * last else 0
    else:
        # The steepest lines the points allow, all noise counted as rise; below a doubling nothing new is seen.
        slope = CLEAR_BYTES * 2 / max(1, last - points[0][0])
        room = budget_bytes - max(points[-1][1].values())
        following = min(GROWTH * last, max(2 * last, last + int(JUMP * room / slope)))
    following = min(following, ceiling)
    return following if following > last else None


def try_one_sample(session: Session, question: MemoryQuestion, seen: PhasePeaks) -> None:
    """Measure a batch of one, where two do not fit; DoesNotFit if that is too large as well."""
    try:
        peaks = ask_peaks(session, question.request(1))
    except JobError:  # BatchNorm and others cannot train on one sample: two is their smallest
        peaks = seen
    needed = peaks.training_bytes() or seen.training_bytes()
    if peaks.outcome == "measured" and needed <= question.budget_bytes:
        return
    if peaks.outcome == "no_batch":
        raise DoesNotFit("The job's own loader gives no batch at all. See that it yields one at batch size 1 or 2")
    needs = format_bytes(needed) if needed else "more memory than there is"
    raise DoesNotFit(
        f"A training step on the smallest batch needs {needs}; the budget is {format_bytes(question.budget_bytes)}. "
        "Raise --memory, or make the model or its samples smaller"
    )


def measure_typical(session: Session, question: MemoryQuestion, points: Points) -> None:
    """Where samples differ, the same sizes with an even spread of them, for the answer beside the worst one."""
    if session.records.description().uneven:
        for size, _ in points[-2:]:
            session.progress(f"typical batch of {size:,}", 0.45)
            ask_peaks(session, question.request(size, samples="typical"))
