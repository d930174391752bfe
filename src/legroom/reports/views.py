"""How answers are shown: what each question's `view.py` says of its answer, for terminal, page and JSON."""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from legroom.questions import QUESTIONS, part_of
from legroom.questions.base import Answer
from legroom.reports.figures import Section

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What is shown of one question's answers."""

    answer: type[Answer]
    print: "Callable[[Console, Any], None]"
    section: Callable[[Any, Sequence[Any]], Section] | None = None
    """Of the report, from the newest answer and the others in the folder; None where the report has none."""
    circumstances: Callable[[Any], tuple[object, ...]] = lambda answer: ()
    """Answers that differ in them are kept beside each other; else the later replaces the earlier."""
    made_of: tuple[str, ...] = ()
    """Questions whose answers this one takes in: it opens the page, which says where one of them is newer."""


@functools.cache
def views() -> Mapping[str, View]:
    """The view of each question by its name, in the page's order."""
    parts = {question: part_of(question, "view") for question in QUESTIONS}
    found = {question: part.VIEW for question, part in parts.items() if part}
    return dict(sorted(found.items(), key=lambda item: not item[1].made_of))


def view_of(answer: Answer) -> View | None:
    """The view of an answer; None where no question gives such."""
    return next((view for view in views().values() if type(answer) is view.answer), None)


def to_json(answer: Answer) -> dict[str, Any]:
    """The answer as `--json` prints it: its fields, its sentence, and the data of its figures and tables."""
    view = view_of(answer)
    if view is None or view.section is None:
        return answer.to_json()
    section = asdict(view.section(answer, ()))
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
    view = view_of(answers[-1])
    assert view is not None
    assert view.section is not None, "only questions with a section are asked for several values"
    return view.section(answers[-1], answers[:-1])


def _once(sentences: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(sentences))
