"""Answers that lie in a job's folder and still hold, so that a plan need not ask again."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from legroom.errors import UsageError
from legroom.logbook import Logbook, RunStarted, read_lines
from legroom.questions.base import Answer
from legroom.questions.loading.answer import LoadingAnswer
from legroom.questions.memory.answer import MemoryAnswer
from legroom.questions.memory.records import MemoryQuestion
from legroom.questions.speed.answer import SpeedAnswer

if TYPE_CHECKING:
    from legroom.reports.saved_answers import SavedAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownAnswers:
    """The newest answer to each question, of this job as it is now, on this device and in this precision."""

    memory: MemoryAnswer | None = None
    speed: SpeedAnswer | None = None
    loading: Sequence[LoadingAnswer] = ()
    """One for each batch size that was asked for, the newest first."""
    notes: Sequence[str] = ()


def find_known(logbook: Logbook, question: MemoryQuestion) -> KnownAnswers:
    """What the logbook's folder holds for the question's device, precision and budget."""
    heads, _, _ = read_lines(logbook.path)
    alike = [saved for saved in _read(logbook.path.parent) if _is_about(saved.answer, question)]
    current = [saved for saved in alike if _is_current(saved, heads, logbook.records.head)]
    answers = [saved.answer for saved in current]
    outdated = sorted({saved.question for saved in alike} - {saved.question for saved in current})
    return KnownAnswers(
        memory=next((answer for answer in answers if isinstance(answer, MemoryAnswer)), None),
        speed=next((answer for answer in answers if isinstance(answer, SpeedAnswer)), None),
        loading=[answer for answer in answers if isinstance(answer, LoadingAnswer)],
        notes=[
            f"The answer to {name} is from before the job's file changed, or of another machine, and was not used; "
            f"ask legroom {name} again"
            for name in outdated
        ],
    )


def _read(folder: Path) -> "list[SavedAnswer]":
    # Imported here: it brings rich, which every child and `import legroom` would pay.
    from legroom.reports.saved_answers import read_answers

    try:
        return read_answers(folder)[0]
    except UsageError:  # there are none yet
        return []


def _is_about(answer: Answer, question: MemoryQuestion) -> bool:
    match answer:
        case MemoryAnswer():
            same = answer.verified and answer.num_devices == 1 and _same_budget(answer, question)
            return same and (answer.device, answer.settings["precision"]) == (question.device, question.precision)
        case SpeedAnswer():
            return (answer.device, answer.precision) == (question.device, question.precision)
        case LoadingAnswer(num_devices=1, rule="legroom"):
            return (answer.device, answer.settings.get("precision")) == (question.device, question.precision)
    return False


def _same_budget(answer: MemoryAnswer, question: MemoryQuestion) -> bool:
    """Of a budget nobody named it is enough that what was proved still fits what is free now."""
    if question.budget_named or answer.budget_named:
        return question.budget_named == answer.budget_named and answer.budget_bytes == question.budget_bytes
    return answer.peak_bytes <= question.budget_bytes


def _is_current(saved: "SavedAnswer", heads: Sequence[RunStarted], now: RunStarted) -> bool:
    """Whether the last run of that question before the answer was of the same file on the same machine."""
    seconds = len("2026-01-01T00:00:00")  # heads are written without fractions
    asked = [
        head
        for head in heads
        if head.command == saved.question and head.started_at[:seconds] <= saved.answered_at[:seconds]
    ]
    return bool(asked) and (asked[-1].digest, asked[-1].machine) == (now.digest, now.machine)
