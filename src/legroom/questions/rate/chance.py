"""Whether anything was learned: a search among runs that only guess would tell the rate of the luckiest."""

import math
from collections.abc import Sequence

from legroom.errors import NothingMeasured
from legroom.laws.chance import leaves_chance
from legroom.questions.rate.evidence import Evidence, value_of
from legroom.questions.rate.records import Grown, RateQuestion
from legroom.requests import JobDescription

MOVED = 0.02
"""Share by which the validation loss must fall from its start, where nobody knows the score of chance."""
MUCH = 0.2
"""Share by which it must fall to have been learned from though an accuracy is within luck: that may count tokens, of
which a sample has many, and as many tokens are less lucky than as many samples."""
ASKED = "Are labels shuffled, or weights frozen?"
MEND = f"{ASKED} If not, raise --budget"


def refuse_chance(evidence: Evidence, question: RateQuestion, description: JobDescription) -> None:
    """Refuse trunks none of which left chance: by score and loss where it is known what chance has, else by the loss.

    A fresh model is often worse than chance: to learn how frequent each class is takes a loss down by some per cent.
    """
    chance, who = _chance(question, description, evidence.start)
    points = [point for trunk in evidence.trunks for point in trunk.points]
    scores = [point.score for point in points if point.score is not None and math.isfinite(point.score)]
    first = None if evidence.start is None else evidence.start.loss
    losses = [point.loss for point in points if math.isfinite(point.loss)]
    if chance is not None and scores:
        best = max(scores) if description.goal == "max" else min(scores)
        if not is_learned(best, first, losses, description, chance, num_looks=len(scores)):
            told = f"The score did not leave chance: {who} has {chance:.4g}, and"
            raise NothingMeasured(f"{told} {best:.4g} is the best {_tried(evidence)}. {_mend(evidence, question)}")
    if description.chance is not None and scores:
        return
    if first is not None and losses and not has_fallen(first, losses, MOVED):
        told = f"The loss did not leave chance: {first:.4g} on validation data before the first update,"
        raise NothingMeasured(f"{told} {min(losses):.4g} at best {_tried(evidence)}. {_mend(evidence, question)}")


def _mend(evidence: Evidence, question: RateQuestion) -> str:
    """What to do: a job that learns by its own settings, as its target shows, has neither labels nor weights amiss."""
    if question.target_from == "given" or evidence.start is None or evidence.start.loss is None:
        return MEND
    if not has_fallen(value_of(evidence.start, question), [question.wanted], MOVED):
        return MEND
    own, first = float(question.settings["learning_rate"]), evidence.start.loss
    is_worse = all(point.loss > first for trunk in evidence.trunks for point in trunk.points)
    why = "These rates are too high" if is_worse else "These runs were too short"
    return f"{why}: the job learns by its own settings, at rate {own:.3g}. Raise --budget"


def refuse_own_chance(
    question: RateQuestion, start: Grown, losses: Sequence[float], description: JobDescription
) -> None:
    """Refuse own settings that end where a model stands that learned nothing: everything would reach that.

    start: before the first update. losses: of their evaluations.
    """
    came = "had only come to" if question.target_from == "begun" else "end at"
    told = f"The job's own settings did not leave chance: they {came} {question.target_name} {question.target:.4g}, and"
    # A run that was made whole would learn no more with a larger budget.
    more = "" if question.target_from == "measured" else ", or raise --budget"
    mend = f"{ASKED} If not, name a --target to reach{more}"
    chance, who = _chance(question, description, start)
    judged = chance if question.target_name == "score" else None
    if judged is not None and not is_learned(question.target, start.loss, losses, description, judged):
        raise NothingMeasured(f"{told} {who} has {judged:.4g}. {mend}")
    first = value_of(start, question)
    if question.wanted >= first:
        raise NothingMeasured(f"{told} a model before its first update has {question.signed(first):.4g}. {mend}")


def has_fallen(first: float | None, losses: Sequence[float], share: float) -> bool:
    """Whether one of the losses lies below the first by that share of it.

    >>> has_fallen(2.0, [1.95, 1.5], 0.2), has_fallen(2.0, [1.9], 0.2)
    (True, False)
    """
    return first is not None and bool(losses) and min(losses) < first - share * abs(first)


def is_learned(
    score: float,
    first: float | None,
    losses: Sequence[float],
    description: JobDescription,
    chance: float,
    *,
    num_looks: int = 1,
) -> bool:
    """Whether score or losses are better than chance by more than luck."""
    goal, num_samples = description.goal, description.num_valid_samples
    if leaves_chance(score, chance, goal=goal, num_samples=num_samples, num_looks=num_looks):
        return True
    return goal == "max" and has_fallen(first, losses, MUCH)


def _chance(question: RateQuestion, description: JobDescription, start: Grown | None) -> tuple[float | None, str]:
    """What chance has, and who has that: what the job says; where an accuracy is sought, else the untrained model."""
    if description.chance is not None:
        return description.chance, "a model that learned nothing"
    untrained = None if start is None or question.target_name != "score" else start.score
    is_accuracy = description.goal == "max" and untrained is not None and 0 < untrained < 1
    return (untrained if is_accuracy else None), "a model before its first update"


def _tried(evidence: Evidence) -> str:
    rates = [trunk.learning_rate for trunk in evidence.trunks]
    most = max(point.num_steps for trunk in evidence.trunks for point in trunk.points)
    return f"after up to {most:,} updates at rates from {min(rates):.3g} to {max(rates):.3g}"
