"""How long a trial should take, by those of its optimizer that settled."""

import math

import numpy as np

from legroom.questions.size.evidence import Evidence
from legroom.questions.size.records import Dimension, SizeQuestion, Solver
from legroom.questions.size.trials import Place

USUAL_GROWTH: dict[Dimension, tuple[float, float]] = {"width": (1.0, 0.0), "depth": (1.0, 1.0)}
"""Of seconds with the share of the data and with the parameters, as powers, before any trial told. Wider models take
fewer, slower updates, and on a small machine fewer is what counts; layers run one after another."""
DOUBT, NOISE = 0.5, 0.5
"""Of these powers, and of the seconds of one trial in ln."""


def foreseen(evidence: Evidence, question: SizeQuestion, place: Place, solver: Solver) -> float:
    """Seconds that a trial there should take; 0 where none with that optimizer settled.

    ln seconds are a plane over ln of the data and of the parameters, held to the usual powers (ridge regression).
    """
    seen = [trial for trial in evidence.of(solver) if trial.counted < math.inf]
    if not seen:
        return 0.0
    sizes = dict(zip(question.values, question.num_parameters, strict=True))
    places = np.log([(trial.fraction, sizes[trial.value]) for trial in seen])
    seconds = np.log([max(trial.result.seconds, 1e-6) for trial in seen])
    away, usual = places - places.mean(axis=0), np.array(USUAL_GROWTH[question.vary])
    squares = away.T @ away + (NOISE / DOUBT) ** 2 * np.eye(2)
    powers = usual + np.linalg.solve(squares, away.T @ (seconds - seconds.mean() - away @ usual))
    there = np.log([place[1], sizes[place[0]]]) - places.mean(axis=0)
    return float(np.exp(seconds.mean() + there @ powers))
