"""Proofs: the predicted sizes run in fresh processes, each correcting the prediction, until one stands."""

from collections.abc import Mapping
from dataclasses import replace

from legroom.errors import JobRaised
from legroom.laws.memory import UNBOUNDED, Line, MemoryLaw, Points, split_batch
from legroom.questions.memory.evidence import gather
from legroom.questions.memory.records import MemoryQuestion, PhasePeaks, StepPeaks
from legroom.session import Session

SMALLEST = 2
"""BatchNorm cannot train on one sample."""
MAX_PROOFS = 5
FURTHEST = 16
"""A law is not trusted further than this many times the largest size that ran."""


def ask_peaks(session: Session, request: StepPeaks) -> PhasePeaks:
    """The peaks; an error of the job is told with the batch that brought it."""
    try:
        return session.ask(request)
    except JobRaised as error:
        message = f"At a batch of {request.batch_size:,}: {error}"
        raise JobRaised(message, details=error.details, facts={"batch_size": request.batch_size}) from None


def prove(
    session: Session, question: MemoryQuestion, training: "Aim", evaluating: "Aim", most: int = MAX_PROOFS
) -> None:
    """Run the predicted sizes in fresh processes, correcting the prediction by each, until one stands."""
    for _ in range(most):
        if training.settled and evaluating.fits:
            return
        size = training.aim()
        eval_size = max(size, evaluating.aim())
        session.progress(f"proving a batch of {size:,}", min(0.95, 0.5 + 0.09 * training.num_proofs))
        peaks = ask_peaks(session, question.proof(size, eval_batch_size=eval_size))
        if peaks.outcome == "measured":
            training.set_aside(peaks.loader_bytes)
        # A step that fitted only by retries does not tell how much more it needed.
        training.learn(size, peaks.spared_phases() if peaks.outcome == "measured" else {})
        evaluating.learn(eval_size, peaks.evaluation_phases())


def prove_accumulation(session: Session, question: MemoryQuestion) -> None:
    """Prove the micro-batch of the batch asked for: with gradients held between passes, less fits than without."""
    wanted = question.effective_batch
    assert wanted is not None
    proved, _ = gather(session.records, question).proved()
    question, largest = replace(question, allocator=proved.allocator), proved.batch_size
    for _ in range(MAX_PROOFS):
        size, passes = split_batch(wanted, largest)
        if passes == 1:
            return
        session.progress(f"proving {passes} passes of {size:,}", 0.9)
        if ask_peaks(session, question.proof(size, accumulation_steps=2)).fits(question.budget_bytes):
            return
        largest = max(1, min(size - 1, int(0.93 * size)))


class Aim:
    """The next size to prove, from the law as the proofs so far correct it."""

    def __init__(
        self,
        law: MemoryLaw,
        points: Points,
        budget_bytes: int,
        *,
        ceiling: int,
        good_gap: float,
        shares: tuple[float, float],
        failed: int | None = None,
        retreat: float = 0.0,
    ) -> None:
        self.law, self.budget_bytes, self.ceiling = law, budget_bytes, ceiling
        self.good_gap = good_gap
        """A proof stands when there is room for no more than this share of further samples."""
        self.shares, self.retreat = shares, retreat
        """Share of the budget the first proof aims at, and later ones; share of a size that died to try next."""
        self.seen = points[-1][0]
        """The largest size that ran; a law is not trusted further than FURTHEST times that."""
        self.ran = max((size for size, phases in points if max(phases.values()) <= budget_bytes), default=0)
        """The largest that ran within the budget before the proofs."""
        self.failed = failed or UNBOUNDED
        """The smallest size that did not run, or took more than the budget."""
        self.blind = failed is not None
        """Whether that one died without telling its peak, so that the law does not know why."""
        self.num_proofs = self.num_failed = self.num_blind = self.fits = 0
        self.trusted: int | None = None
        """A size tried elsewhere, to be proved next."""
        self.settled = False
        self.aside = 0

    def aim(self) -> int:
        """As near to the limit as the law dares, and as the sizes that failed let it."""
        if self.settled:
            return self.fits
        if self.trusted is not None:
            return self.trusted
        wanted = self.law.largest_batch(self.budget_bytes * self.shares[min(1, self.num_proofs)])
        return max(1, self.fits, min(wanted, self._most(wanted), self.ceiling, FURTHEST * self.seen))

    def _most(self, wanted: int) -> int:
        """The most to try below a size that failed; halfway to one that ran, where the law does not know why it failed.

        Memory that grows in steps is such a case: no line through sizes above the step tells where it lies.
        """
        if self.blind:  # each such failure retreats twice as far as the one before: 1.5, 3, 6 %
            retreat = (1 - self.retreat) * 2 ** max(0, self.num_blind - 1)
            return max((self.fits + self.failed) // 2, int((1 - retreat) * self.failed))
        if wanted >= self.failed or (not self.fits and self.num_failed > 1):
            return (max(self.fits, min(self.ran, self.failed - 1)) + self.failed) // 2
        return self.failed - 1

    def set_aside(self, num_bytes: int) -> None:
        """Loader processes hold so much of the budget, whatever the batch: raise the law by it."""
        more, self.aside = num_bytes - self.aside, num_bytes
        self.law = MemoryLaw(tuple(replace(line, fixed_bytes=line.fixed_bytes + more) for line in self.law.lines))

    def learn(self, size: int, phases: Mapping[str, int]) -> None:
        """Take in what a proof showed; no phases means that it did not run through."""
        self.num_proofs += 1
        self.trusted = None
        if phases:
            lines = (_through(line, size, phases[line.phase]) for line in self.law.lines if line.phase in phases)
            self.law = MemoryLaw(tuple(lines))
            self.seen = max(self.seen, size)
        if phases and max(phases.values()) <= self.budget_bytes:
            self.fits = max(self.fits, size)
        elif size <= self.failed:
            self.failed, self.blind = size, not phases
            self.num_failed += 1
            self.num_blind += not phases
        allowed = self.law.largest_batch(self.budget_bytes)
        if allowed < self.fits:  # a larger size turned the law so far that it denies what has been proved
            allowed = self.failed
        room = min(self.failed - 1, self.ceiling, allowed) - self.fits
        self.settled = self.fits > 0 and room <= self.good_gap * self.fits


def _through(line: Line, size: int, seen_bytes: int) -> Line:
    """The line turned, or where that would make it fall, moved, so that it meets what was seen."""
    if seen_bytes > line.fixed_bytes:
        return replace(line, bytes_per_sample=(seen_bytes - line.fixed_bytes) / size)
    return replace(line, fixed_bytes=seen_bytes - line.bytes_per_sample * size)
