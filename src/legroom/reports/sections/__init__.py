"""What the report says of each question: one file each, a small function of the answer. No torch, no plotting."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from legroom.advisors.combine import PlanAnswer
from legroom.advisors.loading import LoadingAnswer
from legroom.advisors.memory import MemoryAnswer
from legroom.advisors.speed import SpeedAnswer
from legroom.advisors.train import TrainAnswer
from legroom.answers import Answer
from legroom.reports.sections import loading, memory, plan, speed, train
from legroom.reports.sections.base import Section


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question that the report has a section for."""

    name: str
    kind: type[Answer]
    section: Callable[[Any, Sequence[Any]], Section]
    circumstances: Callable[[Any], tuple[object, ...]]
    """Answers that differ in them are kept beside each other; else the later replaces the earlier."""


QUESTIONS = (
    Question(name="plan", kind=PlanAnswer, section=plan.section, circumstances=plan.circumstances),
    Question(name="memory", kind=MemoryAnswer, section=memory.section, circumstances=memory.circumstances),
    Question(name="speed", kind=SpeedAnswer, section=speed.section, circumstances=speed.circumstances),
    Question(name="loading", kind=LoadingAnswer, section=loading.section, circumstances=loading.circumstances),
    Question(name="train", kind=TrainAnswer, section=train.section, circumstances=train.circumstances),
)
"""In the page's order."""


def question_of(answer: Answer) -> Question | None:
    """The question it answers; None where the report has no section for it."""
    return next((question for question in QUESTIONS if type(answer) is question.kind), None)


def to_json(answer: Answer) -> dict[str, Any]:
    """The answer as `--json` prints it: its fields, its sentence, and the data of its figures and tables."""
    question = question_of(answer)
    if question is None:
        return answer.to_json()
    section = asdict(question.section(answer, ()))
    return {**answer.to_json(), **{name: section[name] for name in ("summary", "figures", "tables")}}


def to_json_together(answers: Sequence[Answer], missing: Sequence[str]) -> dict[str, Any]:
    """Several answers to one question as one object: each as it is alone, and the figures and tables that compare them.

    `missing` says why there is no answer in some circumstances.
    """
    section = asdict(section_of(answers))
    return {
        **{name: answers[0].to_json()[name] for name in ("legroom_version", "job", "machine")},
        "seconds": sum(answer.seconds for answer in answers),
        "notes": _once(note for answer in answers for note in answer.notes),
        "not_measured": _once([*missing, *(what for answer in answers for what in answer.not_measured)]),
        "answers": [to_json(answer) for answer in reversed(answers)],
        **{name: section[name] for name in ("figures", "tables")},
    }


def section_of(answers: Sequence[Answer]) -> Section:
    """The section as the page shows it after these questions: the last one's, with the others beside it."""
    question = question_of(answers[-1])
    assert question is not None, "only questions with a section are asked for several values"
    return question.section(answers[-1], answers[:-1])


def _once(sentences: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(sentences))
