"""What the answers of all methods have in common, and trunks as an answer shows them."""

import math
from collections.abc import Sequence
from typing import Any

from legroom.logbook import Records
from legroom.questions.base import Recommendation
from legroom.questions.rate.answer import RateAnswer
from legroom.questions.rate.evidence import Trunk
from legroom.questions.rate.growing import COOLDOWN
from legroom.questions.rate.records import RateQuestion

RULES = {"sgd": "linear", "adam": "sqrt"}


def tell(
    records: Records,
    question: RateQuestion,
    recommended: Recommendation,
    *,
    num_steps: int,
    notes: Sequence[str],
    settings: dict[str, Any],
    **found: Any,
) -> RateAnswer:
    """The answer of a method: what it recommends and found, in the circumstances of the question.

    settings: those that it found; all others are the question's.
    """
    description = records.description()
    usual = {
        "target": target_of(question),
        "rule": RULES[question.optimizer],
        "num_epochs": epochs_of(num_steps, records, question),
    }
    return RateAnswer(
        job=records.head.job,
        machine=records.head.machine,
        seconds=records.seconds(),
        notes=[*records.notes, *description.notes, *notes],
        recommendations=[recommended],
        device=question.device,
        method=question.method,
        fraction=question.fraction,
        batch_size=question.update_size,
        learning_rate=recommended.value,
        range=recommended.range or (recommended.value, recommended.value),
        num_steps=num_steps,
        baseline_steps=question.own_steps,
        settings={**question.settings, "learning_rate": recommended.value, **settings},
        baseline=dict(description.baseline),
        **{**usual, **found},
    )


def recommend(rate: float, span: tuple[float, float], because: str, evidence: str) -> Recommendation:
    """A rate with its range; `evidence` is the kind of the records it rests on."""
    return Recommendation(name="learning_rate", value=rate, range=span, because=because, evidence=[evidence])


def target_of(question: RateQuestion) -> dict[str, Any]:
    """The target in the words of an answer."""
    return {
        "name": question.target_name,
        "value": question.target,
        "from": question.target_from,
        "range": question.target_range,
    }


def epochs_of(num_steps: float, records: Records, question: RateQuestion) -> float:
    """Epochs of so many updates, by those of the job's own run: its own loader may count other things than samples."""
    return num_steps * int(records.description().baseline["num_epochs"]) / max(1, question.own_steps)


def cooled(num_steps: int) -> dict[str, Any]:
    """The schedule of a run of so many updates that cools down at its end, as trunks do."""
    cooldown = round(num_steps * COOLDOWN / (1 + COOLDOWN))
    return {"cooldown_steps": cooldown, "schedule": f"stable:cooldown={cooldown / num_steps:.3g}"}


def curve_of(trunk: Trunk, question: RateQuestion, name: str = "") -> dict[str, Any]:
    """A trunk as an answer shows it."""
    return {
        "name": name,
        "learning_rate": trunk.learning_rate,
        "batch_size": trunk.batch_size,
        "seed": trunk.seed,
        "num_steps": [point.num_steps for point in trunk.points],
        "value": [finite(question.signed(point.value)) for point in trunk.points],
        "diverged_at": trunk.diverged_at,
    }


def finite(value: float) -> float | None:
    """The value; None where it is no number that JSON knows."""
    return value if math.isfinite(value) else None
