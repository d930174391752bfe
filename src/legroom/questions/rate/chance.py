"""Whether anything was learned: a search among runs that only guess would tell the rate of the luckiest."""

import math

from legroom.errors import NothingMeasured
from legroom.laws.chance import leaves_chance
from legroom.questions.rate.evidence import Evidence
from legroom.questions.rate.records import RateQuestion
from legroom.requests import JobDescription

MOVED = 0.02
"""Share by which the validation loss must fall from its start, where nobody knows the score of chance."""
MEND = "Are labels shuffled, or weights frozen? If not, raise --budget"


def refuse_chance(evidence: Evidence, description: JobDescription) -> None:
    """Refuse trunks none of which left chance: by their scores where the job says what chance has, else by their loss.

    A fresh model is often worse than chance: to learn how frequent each class is takes a loss down by some per cent.
    """
    points = [point for trunk in evidence.trunks for point in trunk.points]
    scores = [point.score for point in points if point.score is not None and math.isfinite(point.score)]
    if description.chance is not None and scores:
        best = max(scores) if description.goal == "max" else min(scores)
        if not is_learned(best, description, num_looks=len(scores)):
            told = f"The score did not leave chance: a model that learned nothing has {description.chance:.4g}, and"
            raise NothingMeasured(f"{told} {best:.4g} is the best {_tried(evidence)}. {MEND}")
        return
    first = None if evidence.start is None else evidence.start.loss
    losses = [point.loss for point in points if math.isfinite(point.loss)]
    if first is not None and losses and min(losses) >= first - MOVED * abs(first):
        told = f"The loss did not leave chance: {first:.4g} on validation data before the first update,"
        raise NothingMeasured(f"{told} {min(losses):.4g} at best {_tried(evidence)}. {MEND}")


def refuse_own_chance(question: RateQuestion, start: float, description: JobDescription) -> None:
    """Refuse own settings that end where a model stands that learned nothing: everything would reach that.

    start: what is judged, before the first update, so that less is better.
    """
    came = "had only come to" if question.target_from == "begun" else "end at"
    told = f"The job's own settings did not leave chance: they {came} {question.target_name} {question.target:.4g}, and"
    mend = "Name a --target to reach, or raise --budget"
    if question.target_name == "score" and not is_learned(question.target, description):
        raise NothingMeasured(f"{told} a model that learned nothing has {description.chance:.4g}. {mend}")
    if question.wanted >= start:
        raise NothingMeasured(f"{told} a model before its first update has {question.signed(start):.4g}. {mend}")


def is_learned(score: float, description: JobDescription, *, num_looks: int = 1) -> bool:
    """Whether the score is better than chance by more than luck; true where nobody knows what chance has."""
    return description.chance is None or leaves_chance(
        score,
        description.chance,
        goal=description.goal,
        num_samples=description.num_valid_samples,
        num_looks=num_looks,
    )


def _tried(evidence: Evidence) -> str:
    rates = [trunk.learning_rate for trunk in evidence.trunks]
    most = max(point.num_steps for trunk in evidence.trunks for point in trunk.points)
    return f"after up to {most:,} updates at rates from {min(rates):.3g} to {max(rates):.3g}"
