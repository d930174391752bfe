"""All trials that a question asks for, in the order in which they would run if nobody knew how long they take."""

from collections.abc import Iterator
from typing import NamedTuple

from legroom.questions.size.records import RATE_FACTORS, SizeQuestion, Solver


class Planned(NamedTuple):
    """A trial to run."""

    value: int
    fraction: float
    more: int
    """Added to the seed."""
    solver: Solver
    rate_factor: float | None = None
    """None: the best of those tried."""


def planned(question: SizeQuestion) -> Iterator[Planned]:
    """All trials in order: those the fit rests on, those that score it, those that compare optimizers, more seeds."""
    inside, held = places(question)
    for value, fraction in (*inside, *held):
        yield Planned(value, fraction, 0, "own")
    for solver in compared(question):
        for factor in RATE_FACTORS:
            yield Planned(*inside[0], 0, solver, factor)
        for value, fraction in inside[1:]:
            yield Planned(value, fraction, 0, solver)
    for more in range(1, question.num_seeds):
        for value, fraction in (*inside, *held):
            yield Planned(value, fraction, more, "own")
        for solver in compared(question):
            for value, fraction in inside:
                yield Planned(value, fraction, more, solver)


def compared(question: SizeQuestion) -> list[Solver]:
    """Optimizers to run beside the job's own."""
    both: tuple[Solver, ...] = ("sgd", "adam")
    return [solver for solver in both if solver != question.own_solver] if question.compares_solvers else []


def places(question: SizeQuestion) -> tuple[list[tuple[int, float]], list[tuple[int, float]]]:
    """Where the fit rests, and where it is scored, less data first."""
    sizes = dict(zip(question.values, question.num_parameters, strict=True))
    fractions = sorted({*question.fractions, 1.0})
    places = [(value, fraction) for value in question.values for fraction in fractions]
    places.sort(key=lambda place: (place[1], sizes[place[0]]))
    held = [place for place in places if question.is_held_out(*place)]
    return [place for place in places if place not in held], held
