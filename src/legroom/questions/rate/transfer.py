"""`--method transfer`: a rate known to be good at one batch size, carried to another without a run there.

The rules of `laws.rate_scaling` know only the two sizes. Ours looks at the known batch: trunks at half, once and twice
the known rate tell how much it matters, and branches off them the critical batch size, beyond which the rate levels off
(`laws.steps.best_rate`). `--compare-rules` then runs all of them at the new size over as many samples, and beside them
LARS, LAMB and a run twice as long.
"""

from collections.abc import Sequence
from dataclasses import replace

from legroom.questions.rate.carried import compared, outcomes
from legroom.questions.rate.evidence import ramp_seconds
from legroom.questions.rate.growing import LEAST_STEPS, Growing, branch_batches, warmup_steps
from legroom.questions.rate.ramps import diverging_rate
from legroom.questions.rate.ranking import reached
from legroom.questions.rate.records import RampRate, RateQuestion, Solver
from legroom.questions.rate.rules import (
    Candidate,
    candidates,
    compared_steps,
    request_of,
)
from legroom.questions.rate.search import BRANCHED_AT, lengths
from legroom.session import Session

BESIDE = (0.5, 1.0, 2.0)
"""Times the known rate: what half and twice of it cost is part of the answer."""
BASE_SHARE, BRANCH_SHARE = 0.35, 0.55
"""Of the budget, for trunks and branches at the known batch where rules are run side by side too."""
SOLVER_SHARES = (1 / 3, 1 / 10)
"""Of the rate at which LARS or LAMB blows up: those that are tried of each."""
LONGER = 2.0
LOOK_COST = 0.7
"""Updates that a candidate takes to a look, of all up to there: half were made before, and a fifth cool down."""


def find(session: Session, question: RateQuestion, started: float) -> None:
    """Look at the known batch; where asked, run the rules at the new one."""
    known = question.at_known()
    share = BASE_SHARE if question.compares else 1.0
    _look_at_known(session, known, started, share, avoids=question.update_size)
    if question.compares:
        _compare(session, question, started)


def _look_at_known(session: Session, known: RateQuestion, started: float, share: float, *, avoids: int) -> None:
    """Trunks at and beside the known rate until the target or the share's end, then branches off the middle one."""
    growing = Growing(session, known, seed=known.seed, started=started)
    growing.look_at_start()
    rate = float(known.settings["learning_rate"])
    rates = [times * rate for times in BESIDE]
    for place, length in enumerate(lengths(known)):
        if not place and not growing.affords(growing.ahead(rates, length), share):
            rates = [rate]  # without it there is no answer; without the others it has no sensitivity
        if place and not growing.affords(growing.ahead(rates, length), share):
            break
        for each in rates:
            growing.grow(each, length)
        if reached(growing.trunks, known) is not None:
            break
    own = next((trunk for trunk in growing.trunks if trunk.learning_rate == rate), None)
    if own is not None and own.last is not None:
        other = Growing(session, known, seed=known.seed + 1, started=started, avoids=avoids)
        for part in BRANCHED_AT:
            to_step = max(LEAST_STEPS, round(part * own.last.to_step))
            branch_batches(other, own, to_step, BRANCH_SHARE if known.compares else 1.0)


def _compare(session: Session, question: RateQuestion, started: float) -> None:
    """All candidates side by side, from look to look; then the best of the job's own optimizer twice as long."""
    growing = Growing(session, question, seed=question.seed, started=started)
    rivals, steps = candidates(session.records, question), compared_steps(session.records, question)
    for solver in ("lars", "lamb"):
        rivals += _of_solver(session, question, solver)
    first = len(rivals) * steps[0] * LOOK_COST * _ramped_seconds(session, question)
    if growing.spent + first / question.budget_seconds > 1:
        return
    for to_step in steps:
        if not growing.affords(len(rivals) * to_step * LOOK_COST, 1.0):
            return
        _run(growing, question, rivals, to_step)
        rivals.reverse()  # those that were grown last are still held
    _, fair = compared(outcomes(session.records, question))
    mine = [pair for pair in fair if pair[0].solver == "own"]
    longest = round(LONGER * steps[-1])
    if mine and growing.affords(longest * LOOK_COST, 1.0):
        best, _ = min(mine, key=lambda pair: pair[1].points[-1].value)
        _run(growing, question, [replace(best, name=f"{best.name}, twice as long")], longest)


def _ramped_seconds(session: Session, question: RateQuestion) -> float:
    """Of an update at the new size, by the ramps there: nothing else was trained at it so far."""
    ramps = [
        entry.result
        for entry in session.records.entries
        if isinstance(entry.request, RampRate) and question.covers(replace(entry.request, solver="own"))
    ]
    return ramp_seconds(ramps)


def _of_solver(session: Session, question: RateQuestion, solver: Solver) -> list[Candidate]:
    """Another optimizer at two rates below the one at which it blows up."""
    request = replace(question.ramp(0), solver=solver)
    session.progress(f"ramp of {solver.upper()}", 0.6)
    blown = diverging_rate([session.ask(request)]) or request.most_rate
    warmup = warmup_steps(question)
    return [
        Candidate(name=solver.upper(), learning_rate=blown * share, warmup_steps=warmup, solver=solver)
        for share in SOLVER_SHARES
    ]


def _run(growing: Growing, question: RateQuestion, rivals: Sequence[Candidate], to_step: int) -> None:
    for candidate in rivals:
        growing.tell(f"{candidate.name}, {to_step:,} updates of {question.update_size:,}")
        growing.session.ask(request_of(question, candidate, to_step))
