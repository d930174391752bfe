"""Trunks of one seed, grown within a budget, and the branches at other batch sizes that leave them."""

import math
from collections.abc import Sequence

from legroom.errors import JobError
from legroom.laws.steps import best_rate, rate_exponent
from legroom.questions.rate.critical import critical_batch, guess_by_noise
from legroom.questions.rate.evidence import Evidence, Trunk, gather
from legroom.questions.rate.records import BranchBatch, Grown, GrowTrunk, RateQuestion
from legroom.session import Session

COOLDOWN = 0.2
"""Of the updates before it."""
WARMUP_SHARE = 0.005
"""Of the job's own updates: a climb that costs little and saves trunks at high rates."""
SHORT_SHARE, LEAST_WARMUP, SHORT_WARMUP = 0.02, 3, 10
"""A warm-up is no shorter than that share of the job's own updates, between so many updates."""
BRANCH_SHARE = 0.5
"""Samples of a batch branch, of those before it."""
NEAR, FAR = 4, 16
"""Sizes of branches, as multiples of the trunk's."""
LEAST_BRANCH = 3
"""Updates below which a branch tells nothing."""
LEAST_STEPS = 20
NUM_BRANCHES = 5


class Growing:
    """Trunks of one seed, grown together."""

    def __init__(
        self, session: Session, question: RateQuestion, *, seed: int, started: float, avoids: int | None = None
    ) -> None:
        self.session, self.question, self.seed, self.started = session, question, seed, started
        self.avoids = avoids
        """Samples of an update that no branch may have: what is told of that batch size is told without a run there."""

    @property
    def evidence(self) -> Evidence:
        """What is known by now."""
        return gather(self.session.records.entries, self.question)

    @property
    def trunks(self) -> list[Trunk]:
        """Those of this seed, by rate."""
        return self.evidence.of_seed(self.seed)

    def beside(self, factor: float) -> float:
        """The factor on the batch, or another where that would be the size to avoid."""
        if round(self.question.update_size * factor) != self.avoids:
            return factor
        return factor * 2 if factor == NEAR else factor / 2

    def grow(self, rate: float, to_step: int) -> Grown:
        """One trunk, to one length."""
        self.tell(f"rate {rate:.3g}, {to_step:,} updates")
        return self.session.ask(self.request(rate, to_step))

    def look_at_start(self) -> None:
        """Evaluate the model before any update: what all learning is compared with."""
        self.session.ask(start_request(self.question))

    def request(self, rate: float, to_step: int) -> GrowTrunk:
        """The request for a trunk."""
        warmup = warmup_steps(self.question)
        return self.question.trunk(rate, to_step, seed=self.seed, warmup_steps=warmup, cooldown=COOLDOWN)

    def affords(self, num_steps: float, share: float) -> bool:
        """Whether so many updates stay within that share of the budget."""
        return self.spent + num_steps * self.evidence.step_seconds / self.question.budget_seconds <= share

    def ahead(self, rates: Sequence[float], to_step: int) -> float:
        """Updates that growing these trunks to there takes, their cooldowns included."""
        grown = {trunk.learning_rate: trunk.last.to_step for trunk in self.trunks if trunk.last is not None}
        return sum(max(0, to_step - grown.get(rate, 0)) + COOLDOWN * to_step for rate in rates)

    @property
    def spent(self) -> float:
        """Share of the budget that is gone."""
        return (self.session.clock() - self.started) / self.question.budget_seconds

    def tell(self, what: str) -> None:
        """Say what is done now."""
        self.session.progress(what, min(0.99, self.spent))


def branch_batches(growing: Growing, best: Trunk, to_step: int, share: float = 1.0) -> None:
    """From one place of the trunk, go on over as many samples with several batch sizes, within a share of the budget.

    The next larger is tried by both usual rules for the rate. Beyond the critical batch size larger ones hardly differ,
    and smaller ones tell, as they do where memory has no room for larger ones: what noise and the first branches say of
    it decides, and how far the rate moves with them.
    """
    samples = to_step + NUM_BRANCHES * BRANCH_SHARE * to_step
    if to_step < LEAST_STEPS / 2 or not growing.affords(samples, share):
        return
    growing.grow(best.learning_rate, to_step)
    own, rate = best.batch_size, best.learning_rate
    _branch(growing, best, to_step, 1, rate, share)
    near = growing.beside(NEAR)
    for power in (0.5, 1.0):
        _branch(growing, best, to_step, near, rate * near**power, share)
    critical = _guess(growing, best)
    if critical is None:
        return
    exponent = rate_exponent(growing.question.optimizer)
    factor = growing.beside(FAR if critical > own and not growing.evidence.failed else 1 / NEAR)
    carried = best_rate(rate, own, factor * own, critical, exponent)
    for each in [carried] if factor > 1 else [carried, rate]:
        _branch(growing, best, to_step, factor, each, share)


def _guess(growing: Growing, best: Trunk) -> float | None:
    """The critical batch size as far as it is known: by noise and by branches, in the middle of both."""
    noise, branches = guess_by_noise(growing.evidence, best), critical_batch(growing.evidence, best).value
    if noise is None or branches is None:
        return branches if noise is None else noise.batch_size
    return math.sqrt(noise.batch_size * branches)


def _branch(growing: Growing, best: Trunk, to_step: int, factor: float, rate: float, share: float) -> None:
    """One branch, where the budget still holds it: what went before may have taken longer than foreseen."""
    question, size = growing.question, max(1, round(best.batch_size * factor))
    num_steps = round(BRANCH_SHARE * to_step * best.batch_size / size)
    sizes_that_failed = {each.update_size for each, _ in growing.evidence.failed}
    if num_steps < LEAST_BRANCH or size in sizes_that_failed or not growing.affords(BRANCH_SHARE * to_step, share):
        return
    growing.tell(f"a branch of batches of {size:,}")
    request = question.branch(growing.request(best.learning_rate, to_step), size, rate, num_steps)
    if _is_within(growing, request):
        _ask_or_leave_out(growing, request)


def _ask_or_leave_out(growing: Growing, request: BranchBatch) -> None:
    """Ask for a branch; one that fails is written down as that: the rate is told without it."""
    started = growing.session.clock()
    try:
        growing.session.ask(request)
    except JobError as error:
        failed = Grown(failure=str(error))
        growing.session.logbook.record(request, failed, growing.session.clock() - started)


def _is_within(growing: Growing, request: BranchBatch) -> bool:
    """Whether the data has a pass of that size."""
    description = growing.session.records.description()
    limit = description.data_limit or math.inf
    return request.batch_size <= limit * growing.question.fraction


def start_request(question: RateQuestion) -> GrowTrunk:
    """The request for an evaluation before any update."""
    rate = float(question.settings["learning_rate"])
    return question.trunk(rate, 0, seed=question.seed, warmup_steps=0, cooldown=0.0)


def warmup_steps(question: RateQuestion) -> int:
    """Updates over which every trunk climbs to its rate."""
    share = round(WARMUP_SHARE * question.own_steps)
    share = share if question.most_warmup is None else min(share, question.most_warmup)
    least = max(LEAST_WARMUP, min(SHORT_WARMUP, round(SHORT_SHARE * question.own_steps)))
    return max(int(question.settings["warmup_steps"]), least, share)
