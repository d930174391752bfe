"""Which trials to run, the cheapest first, as far as the budget goes."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from legroom.questions.size.evidence import gather
from legroom.questions.size.records import SizeQuestion, Solver
from legroom.session import Session

MOST_SHARE = 1 / 3
"""Of the budget, that one trial may take."""
LEAST_SECONDS = 2.0
SHORT = 0.8
"""An unsettled trial that had less than this share of the time that it may have now is run again."""
WIDTH_COST = 0.5
"""How the time of a trial grows with the parameters, as a power: larger models need fewer, slower updates."""


class Planned(NamedTuple):
    """A trial to run."""

    value: int
    fraction: float
    more: int
    """Added to the seed."""
    solver: Solver


def planned(question: SizeQuestion) -> Iterator[Planned]:
    """All trials in order: those the fit rests on, those that score it, those that compare optimizers, more seeds."""
    inside, held = _places(question)
    for value, fraction in (*inside, *held):
        yield Planned(value, fraction, 0, "own")
    for solver in compared(question):
        for value, fraction in inside:
            yield Planned(value, fraction, 0, solver)
    for more in range(1, question.num_seeds):
        for value, fraction in (*inside, *held):
            yield Planned(value, fraction, more, "own")


def compared(question: SizeQuestion) -> list[Solver]:
    """Optimizers to run beside the job's own."""
    both: tuple[Solver, ...] = ("sgd", "adam")
    return [solver for solver in both if solver != question.own_solver] if question.compares_solvers else []


def _places(question: SizeQuestion) -> tuple[list[tuple[int, float]], list[tuple[int, float]]]:
    """Where the fit rests, and where it is scored, the cheapest first."""
    sizes = dict(zip(question.values, question.num_parameters, strict=True))
    fractions = sorted({*question.fractions, 1.0})
    places = [(value, fraction) for value in question.values for fraction in fractions]
    places.sort(key=lambda place: place[1] * sizes[place[0]] ** WIDTH_COST)
    held = [place for place in places if question.is_held_out(*place)]
    return [place for place in places if place not in held], held


def run_trials(session: Session, question: SizeQuestion, started: float) -> None:
    """Run what is planned, as far as the budget goes.

    What scores the fit, and more seeds, are passed over where they are too long for what is left; what the fit rests on
    is tried even so, since a run that is cut short bounds it.
    """
    plan = list(planned(question))
    for number, each in enumerate(plan):
        left = question.budget_seconds - (session.clock() - started)
        limit = min(left, MOST_SHARE * question.budget_seconds)
        request = question.trial(each.value, each.fraction, each.more, max(limit, LEAST_SECONDS), each.solver)
        known = session.logbook.recall(request)
        longer = known is not None and known.outcome == "unsettled" and known.seconds < SHORT * request.max_seconds
        if known is not None and not longer:
            continue
        optional = each.more > 0 or question.is_held_out(each.value, each.fraction)
        if limit < LEAST_SECONDS or (optional and foreseen(session, question, each) > left):
            continue
        session.progress(words(each, question), _share(number, plan, left, question))
        session.measure(request)


def _share(number: int, plan: Sequence[Planned], left: float, question: SizeQuestion) -> float:
    """Done, by trials or by time, whichever is further."""
    return min(0.99, max(number / len(plan), 1 - left / question.budget_seconds))


def words(each: Planned, question: SizeQuestion) -> str:
    """What is run now."""
    solver = "" if each.solver == "own" else f", {each.solver}"
    return f"{question.vary} {each.value:,}, {100 * each.fraction:.3g} % of the data{solver}, seed {each.more}"


def foreseen(session: Session, question: SizeQuestion, each: Planned) -> float:
    """Seconds that the trial should take, by the one most like it; 0 where there is none."""
    sizes = dict(zip(question.values, question.num_parameters, strict=True))
    known = [
        (abs(math.log(each.fraction / trial.fraction)) + abs(math.log(sizes[each.value] / sizes[trial.value])), trial)
        for trial in gather(session.records.entries, question).trials
        if trial.result.outcome == "settled"
    ]
    if not known:
        return 0.0
    _, near = min(known, key=lambda pair: pair[0])
    grown = each.fraction / near.fraction * (sizes[each.value] / sizes[near.value]) ** WIDTH_COST
    return float(near.result.seconds * grown)
