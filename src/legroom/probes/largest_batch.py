"""Finds the largest batch within a budget of host memory: small sizes, a line, a jump near the limit, proofs."""

from collections.abc import Mapping

from legroom.errors import DoesNotFit, JobError
from legroom.laws.memory import CLEAR_BYTES, LARGEST_BATCH, UNBOUNDED, Line, MemoryLaw, Points, fit_memory
from legroom.probes.session import Session
from legroom.records import Describe, JobDescription, MemoryQuestion, PhasePeaks
from legroom.units import format_bytes

SMALLEST = 2
"""BatchNorm cannot train on one sample."""
GROWTH = 8
JUMP = 0.7
"""Share of the room left at which the law is measured again: near enough to see it bend, far enough to be safe."""
MARGIN = 0.95
"""Share of the budget the first proof aims at: the plain allocator holds about 5 % more than the steady one."""
LATER_MARGIN = 0.985
MAX_PROOFS = 5
FURTHEST = 16
GOOD_GAP = 0.04
"""A proof stands when the law sees room for no more than this share of further samples."""
GOOD_EVAL_GAP = 0.1
"""Evaluation takes a small share of a run: the last tenth of its batch is not worth another proof."""


def find_largest_batch(session: Session, question: MemoryQuestion) -> None:
    """Measure until the largest training and evaluation batches are proved; the logbook then holds the answer."""
    session.progress("reading the job", 0.02)
    description = session.ask(Describe(seed=question.seed))
    assert isinstance(description, JobDescription)
    ceiling, eval_ceiling = _ceilings(question, description)
    points, failed = _climb(session, question, ceiling)
    if description.uneven:
        _measure_typical(session, question, points)
    law, seen = fit_memory(points), points[-1][0]
    evaluation = MemoryLaw({"evaluation": law.phases["evaluation"]})
    training = Aim(law, seen=seen, ceiling=ceiling, failed=failed, good_gap=GOOD_GAP)
    evaluating = Aim(evaluation, seen=seen, ceiling=eval_ceiling, failed=None, good_gap=GOOD_EVAL_GAP)
    _prove(session, question, training, evaluating)


def _ceilings(question: MemoryQuestion, description: JobDescription) -> tuple[int, int]:
    """Sizes above which nobody asks, for training and evaluation."""
    if not question.up_to_data:
        return LARGEST_BATCH, LARGEST_BATCH
    ceiling = min(LARGEST_BATCH, description.num_samples or LARGEST_BATCH)
    return ceiling, min(LARGEST_BATCH, description.num_valid_samples or ceiling)


def _climb(session: Session, question: MemoryQuestion, ceiling: int) -> tuple[Points, int | None]:
    """Peaks at growing sizes until the law is known, and the size that could not be run, if one was met."""
    points: list[tuple[int, Mapping[str, int]]] = []
    size: int | None = SMALLEST
    while size is not None:
        session.progress(f"batch of {size:,}", min(0.4, 0.1 + 0.06 * len(points)))
        peaks = session.peaks(question.request(size))
        if not points and (peaks.outcome != "measured" or peaks.training_bytes() > question.budget_bytes):
            return [_smallest_of_all(session, question, peaks)], SMALLEST
        if peaks.outcome != "measured":
            return points, size
        points.append((size, peaks.phase_bytes))
        size = next_size(points, question.budget_bytes, ceiling)
    return points, None


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


def _smallest_of_all(session: Session, question: MemoryQuestion, seen: PhasePeaks) -> tuple[int, Mapping[str, int]]:
    """The peak at a batch of one, where two do not fit; DoesNotFit if that is too large as well."""
    try:
        peaks = session.peaks(question.request(1))
    except JobError:  # BatchNorm and others cannot train on one sample: two is their smallest
        peaks = seen
    needed = peaks.training_bytes() or seen.training_bytes()
    if peaks.outcome == "measured" and needed <= question.budget_bytes:
        return 1, peaks.phase_bytes
    if peaks.outcome == "no_batch":
        raise DoesNotFit("The job's own loader gives no batch at all. See that it yields one at batch size 1 or 2")
    needs = format_bytes(needed) if needed else "more memory than there is"
    raise DoesNotFit(
        f"A training step on the smallest batch needs {needs}; the budget is {format_bytes(question.budget_bytes)}. "
        "Raise --memory, or make the model or its samples smaller"
    )


def _measure_typical(session: Session, question: MemoryQuestion, points: Points) -> None:
    """The same sizes with an even spread of samples, for the answer beside the worst one."""
    for size, _ in points[-2:]:
        session.progress(f"typical batch of {size:,}", 0.45)
        session.peaks(question.request(size, samples="typical"))


def _prove(session: Session, question: MemoryQuestion, training: "Aim", evaluating: "Aim") -> None:
    """Run the predicted sizes in fresh processes, correcting the prediction by each, until one stands."""
    for attempt in range(MAX_PROOFS):
        size = training.aim(question.budget_bytes)
        eval_size = max(size, evaluating.aim(question.budget_bytes))
        session.progress(f"proving a batch of {size:,}", 0.5 + 0.45 * attempt / MAX_PROOFS)
        peaks = session.peaks(question.request(size, eval_batch_size=eval_size, num_steps=5, proof=True))
        training.learn(size, peaks.training_phases(), question.budget_bytes)
        evaluating.learn(eval_size, peaks.evaluation_phases(), question.budget_bytes)
        if training.settled and evaluating.settled:
            return


class Aim:
    """The next size to prove, from the law as the proofs so far correct it."""

    def __init__(self, law: MemoryLaw, *, seen: int, ceiling: int, failed: int | None, good_gap: float) -> None:
        self.law, self.ceiling, self.good_gap = law, ceiling, good_gap
        self.seen = seen
        """The largest size that ran; a law is not trusted further than FURTHEST times that."""
        self.failed = failed or UNBOUNDED
        """The smallest size that did not run, or took more than the budget."""
        self.blind = failed is not None
        """Whether that one died without telling its peak, so that the law does not know why."""
        self.num_proofs = self.fits = 0
        self.settled = False

    def aim(self, budget_bytes: int) -> int:
        """As near to the limit as the law dares; halfway to a size that died without telling why."""
        if self.settled:
            return self.fits
        wanted = self.law.largest_batch(budget_bytes * (LATER_MARGIN if self.num_proofs else MARGIN))
        halfway = (self.fits + self.failed) // 2 if self.blind else self.failed - 1
        return max(1, self.fits, min(wanted, halfway, self.ceiling, FURTHEST * self.seen))

    def learn(self, size: int, phases: Mapping[str, int], budget_bytes: int) -> None:
        """Take in what a proof showed; no phases means that it did not run through."""
        self.num_proofs += 1
        if phases:
            self.law = MemoryLaw({name: _through(self.law.phases[name], size, seen) for name, seen in phases.items()})
            self.seen = max(self.seen, size)
        if phases and max(phases.values()) <= budget_bytes:
            self.fits = max(self.fits, size)
        elif size <= self.failed:
            self.failed, self.blind = size, not phases
        room = min(self.failed - 1, self.ceiling, self.law.largest_batch(budget_bytes)) - self.fits
        self.settled = self.fits > 0 and room <= max(1.0, self.good_gap * self.fits)


def _through(line: Line, size: int, seen_bytes: int) -> Line:
    """The line turned, or where that would make it fall, moved, so that it meets what was seen."""
    if seen_bytes > line.fixed_bytes and line.bytes_per_sample > 0:
        return Line(line.fixed_bytes, (seen_bytes - line.fixed_bytes) / size)
    return Line(seen_bytes - line.bytes_per_sample * size, line.bytes_per_sample)
