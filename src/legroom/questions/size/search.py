"""Runs the trials that are planned, the cheapest first, as far as the budget goes."""

import math
from collections.abc import Sequence
from dataclasses import replace

from legroom.errors import JobError
from legroom.logbook import Entry
from legroom.questions.size.evidence import Evidence, gather
from legroom.questions.size.foresight import foreseen
from legroom.questions.size.planning import Planned, planned
from legroom.questions.size.records import SizeQuestion, SizeTrained, TrainSize
from legroom.session import Session

MOST_SHARE = 1 / 3
"""Of the budget, that one trial may take."""
LEAST_SECONDS = 2.0
SHORT = 0.8
"""An unsettled trial that could have less than this share of the time that it can have now is run again."""
PATIENCE = 4.0
"""Times the seconds foreseen, after which a trial that the fit can do without ends: some curves creep for ever."""
NUM_SURE = 4
"""Sizes, the smallest ones, that are tried however long they take."""
SETTLED_FIRST = 3
"""Places of the fit, before those that score it are tried too where they should take less time than others."""


def run_trials(session: Session, question: SizeQuestion, started: float) -> None:
    """Run what is planned, as far as the budget goes."""
    waiting = list(planned(question))
    num_planned = len(waiting)
    while waiting:
        left = question.budget_seconds - (session.clock() - started)
        each = next_of(waiting, gather(session.records.entries, question), question)
        session.progress(words(each, question), _share(1 - len(waiting) / num_planned, left, question))
        waiting.remove(each)
        request = _request(session, question, each, left)
        if request is not None:
            _train(session, question, request)


def next_of(waiting: Sequence[Planned], evidence: Evidence, question: SizeQuestion) -> Planned:
    """The next in order; once a few trials of the fit settled, the cheapest of the first seed, the sure sizes first."""
    first = [each for each in waiting if each.more == 0 and each.solver == "own"]
    settled = {trial.place for trial in evidence.of() if trial.counted < math.inf and not trial.held_out}
    if not first or len(settled) < SETTLED_FIRST:
        return waiting[0]
    cost = {each: foreseen(evidence, question, (each.value, each.fraction), "own") for each in first}
    return min(first, key=lambda each: (_is_large(each, question), cost[each]))


def _is_large(each: Planned, question: SizeQuestion) -> bool:
    """Whether its size is run only where the budget has room for it."""
    return each.value not in sorted(question.values)[:NUM_SURE]


def _request(session: Session, question: SizeQuestion, each: Planned, left: float) -> TrainSize | None:
    """The trial to run now; None where it is known, or too long for what is left.

    What scores the fit, more seeds, and the larger of many sizes are passed over where they are too long; what the fit
    rests on is tried even so, since a run that is cut short bounds it.
    """
    limit = min(left, max(LEAST_SECONDS, MOST_SHARE * question.budget_seconds))
    evidence = gather(session.records.entries, question)
    factor = each.rate_factor or evidence.rate_factor(each.solver)
    place = each.value, each.fraction, each.more
    request = question.trial(*place, max(limit, LEAST_SECONDS), each.solver, factor)
    known = _known(session, request)
    if known is not None and not _may_go_on(known, request):
        session.ask(request)  # recalled, and its seconds count as they did when it ran
        return None
    if limit < LEAST_SECONDS:
        return None
    is_large = _is_large(each, question)
    if not (is_large or each.more > 0 or question.is_held_out(each.value, each.fraction)):
        return request
    expected = foreseen(evidence, question, (each.value, each.fraction), each.solver)
    if expected > (limit if is_large else left):
        return None
    patient = known is not None or expected == 0  # who asks for more time than a trial had gets it
    most = request.max_seconds if patient else max(LEAST_SECONDS, PATIENCE * expected)
    return replace(request, max_seconds=min(request.max_seconds, most))


def _known(session: Session, request: TrainSize) -> Entry | None:
    """What is on record of that trial, before it is used."""
    entries = [*session.logbook.known, *session.records.entries]
    return next((entry for entry in reversed(entries) if entry.request == request), None)


def _may_go_on(known: Entry, request: TrainSize) -> bool:
    """Whether it had not settled, and has more time now than it could have then."""
    assert isinstance(known.request, TrainSize)
    could = known.request.most_seconds or known.request.max_seconds
    return bool(known.result.outcome == "unsettled" and could < SHORT * request.most_seconds)


def _train(session: Session, question: SizeQuestion, request: TrainSize) -> None:
    """Run the trial; one that fails is a record like others, unless the job fails whatever its size."""
    started = session.clock()
    try:
        session.measure(request)
    except JobError as error:
        failed = SizeTrained(outcome="failed", why=str(error))
        session.logbook.record(request, failed, session.clock() - started)
        if _fails_always(gather(session.records.entries, question)):
            raise


def _fails_always(evidence: Evidence) -> bool:
    """Whether nothing but failures was seen, at two sizes or more."""
    outcomes = {trial.result.outcome for trial in evidence.trials}
    return outcomes == {"failed"} and len({trial.value for trial in evidence.trials}) > 1


def _share(done: float, left: float, question: SizeQuestion) -> float:
    """Done, by trials or by time, whichever is further."""
    return min(0.99, max(done, 1 - left / question.budget_seconds))


def words(each: Planned, question: SizeQuestion) -> str:
    """What is run now."""
    solver = "" if each.solver == "own" else f", {each.solver}"
    return f"{question.vary} {each.value:,}, {100 * each.fraction:.3g} % of the data{solver}, seed {each.more}"
