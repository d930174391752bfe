"""Answers kept beside the logbook, so that the report can be written again without measuring."""

import contextlib
import datetime
import functools
import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from legroom.errors import UsageError
from legroom.files import write_atomically, writing
from legroom.logbook import FILE_NAME as LOGBOOK_NAME
from legroom.logbook import RunStarted, read_lines
from legroom.questions.base import Answer
from legroom.reports.views import to_json, views
from legroom.texts import json_text

if TYPE_CHECKING:
    from pydantic import TypeAdapter

FOLDER_NAME = "answers"


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedAnswer:
    """An answer as it was kept."""

    question: str
    answer: Answer
    answered_at: str
    legroom_version: str

    def is_of(self, heads: Iterable[RunStarted], digest: str, machine: str) -> bool:
        """Whether the run that gave it was of that text of the job's file, on that machine."""
        seconds = len("2026-01-01T00:00:00")  # heads are written without fractions
        before = [head for head in heads if head.started_at[:seconds] <= self.answered_at[:seconds]]
        asked = [head for head in before if head.command == self.question]
        return bool(asked) and (asked[-1].digest, asked[-1].machine) == (digest, machine)


def save_answer(folder: Path, answer: Answer) -> None:
    """Keep the answer; it replaces one to the same question in the same circumstances."""
    name, view = next((name, view) for name, view in views().items() if type(answer) is view.answer)
    now = datetime.datetime.now(datetime.UTC).isoformat()
    kept = {"question": name, "answered_at": now, **to_json(answer)}
    words = [name, *map(str, view.circumstances(answer))]
    with writing(folder / FOLDER_NAME):
        (folder / FOLDER_NAME).mkdir(exist_ok=True)
    file_name = re.sub(r"[^a-z0-9.]+", "-", "-".join(words).lower())
    write_atomically(folder / FOLDER_NAME / f"{file_name}.json", json_text(kept))


def read_answers(folder: Path) -> tuple[list[SavedAnswer], list[str]]:
    """The answers kept in the folder, newest first, and sentences about files that hold none."""
    if not folder.is_dir():
        raise UsageError(f"There is no folder {folder}. Name one that a legroom command wrote with --out")
    found: list[SavedAnswer] = []
    notes: list[str] = []
    for path in sorted((folder / FOLDER_NAME).glob("*.json")):
        try:
            found.append(_read(json.loads(path.read_text())))
        except (ValueError, KeyError, TypeError, OSError):
            notes.append(f"{path.name} holds no answer that this version of legroom can read; ask the question again")
    if not found:
        inside = ", ".join(str(path.parent) for path in sorted(folder.glob(f"*/{FOLDER_NAME}")))
        way = (
            f", but in: {inside}. Name one of them"
            if inside
            else ". Name a folder that a legroom command wrote with --out"
        )
        raise UsageError(f"There is no answer in {folder}{way}")
    return sorted(found, key=lambda saved: saved.answered_at, reverse=True), notes


def answers_inside(folder: Path, answers: Sequence[SavedAnswer]) -> list[SavedAnswer]:
    """Answers that one in the folder took in and that are kept nowhere else, as a plan's to memory.

    The logbook holds them in the question of the last run that gave it.
    """
    path, asked = folder / LOGBOOK_NAME, {saved.question for saved in answers}
    found = []
    for saved in answers:
        missing = [name for name in views()[saved.question].made_of if name not in asked]
        heads = read_lines(path)[0] if missing and path.is_file() else []
        words = next((head.question for head in reversed(heads) if head.command == saved.question), {})
        for name in missing:
            with contextlib.suppress(ValueError):
                given = words.get(name) or {}
                # Without a probe nothing was measured: what a plan had no time for is no answer.
                is_measured = given and given.get("probes", True)
                found += [replace(saved, question=name, answer=_answer(name, given))] if is_measured else []
    return found


def _answer(question: str, data: dict[str, Any]) -> Answer:
    kind = views()[question].answer
    # JSON has no word for NaN: a number that was none comes back as null; older answers lack numbers that came since.
    null = {item.name for item in fields(kind) if item.type is float and data.get(item.name, 0.0) is None}
    answer: Answer = _reader(question).validate_python({**data, **dict.fromkeys(null, math.nan)})
    return answer


def _read(data: dict[str, Any]) -> SavedAnswer:
    return SavedAnswer(
        question=data["question"],
        answer=_answer(data["question"], data),
        answered_at=data["answered_at"],
        legroom_version=data["legroom_version"],
    )


@functools.cache  # a reader takes 30 ms to make
def _reader(question: str) -> "TypeAdapter[Any]":
    from pydantic import TypeAdapter

    return TypeAdapter(views()[question].answer)
