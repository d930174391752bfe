"""The report as one offline page: every question the folder knows, drawn from the data that `--json` prints."""

import base64
import functools
import gzip
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from legroom.files import write_atomically
from legroom.job_address import AnyJob, address_of, out_folder
from legroom.reports import what_if
from legroom.reports.figures import Section
from legroom.reports.numbers import quantity
from legroom.reports.saved_answers import SavedAnswer, answers_inside, read_answers
from legroom.reports.views import views
from legroom.texts import json_text
from legroom.units import format_seconds

if TYPE_CHECKING:
    from jinja2 import Template

FILE_NAME = "report.html"


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSection:
    """A section with its circumstances, where it has some of its own."""

    question: str
    section: Section
    settings: list[tuple[str, Any, Any]] = field(default_factory=list)
    """Name, the job's own value, the value found."""
    notes: list[str] = field(default_factory=list)
    not_measured: list[str] = field(default_factory=list)
    evidence: list[str] = field(default_factory=list)
    """Kinds of the records that its recommendations rest on."""
    seconds: float = 0.0
    within: str = ""
    """The question whose seconds hold these too."""
    machine: str = ""
    answered_at: str = ""
    legroom_version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """All that the page shows."""

    job: str
    name: str
    """The job as a title: a file without its folders."""
    sections: list[PageSection]
    notes: list[str]

    @property
    def seconds(self) -> float:
        """What measuring took, each measurement counted once."""
        return sum(part.seconds for part in self.sections if not part.within)


def write_page(folder: Path) -> Path:
    """Write report.html anew from the answers in the folder, whole or not at all."""
    path = folder / FILE_NAME
    write_atomically(path, render_page(gather_page(folder)))
    return path


def report_path(job: AnyJob, options: Mapping[str, str] | None = None, out: Path | None = None) -> Path:
    """Where the report on that job lies."""
    return out_folder(address_of(job, options), out) / FILE_NAME


def gather_page(folder: Path) -> Page:
    """The newest answer to each question, older ones beside it where the section compares."""
    answers, notes = read_answers(folder)
    answers = [*answers, *answers_inside(folder, answers)]
    by_question = [[saved for saved in answers if saved.question == question] for question in views()]
    sections = [_section(same, answers) for same in by_question if same]
    job = answers[0].answer.job
    return Page(job=job, name=short_name(job), sections=sections, notes=notes)


def short_name(job: str) -> str:
    """A job's address without the folders of its file.

    >>> short_name("/home/me/train.py:job"), short_name("/home/me/train.py:small"), short_name("digits")
    ('train.py', 'train.py:small', 'digits')
    """
    where, _, function = job.rpartition(":")
    if not where.endswith(".py"):
        return job
    return Path(where).name + (f":{function}" if function != "job" else "")


def _newer_parts(answer: SavedAnswer, answers: Sequence[SavedAnswer]) -> str:
    """A sentence that names answers which this one is made of and which are newer; empty where none is."""
    newer = {saved.question for saved in answers[: answers.index(answer)]}
    found = [question for question in views()[answer.question].made_of if question in newer]
    which = f"{' and '.join(found)} below; legroom {answer.question} takes {'them' if len(found) > 1 else 'it'} in."
    return f" It was made before the answer{'s' * (len(found) > 1)} to {which}" if found else ""


def _within(answer: SavedAnswer, answers: Sequence[SavedAnswer]) -> str:
    """The question that asked for this answer, such as a plan; empty where somebody asked it alone."""
    for other in answers:
        asked = {name.partition(" ")[0] for name in getattr(other.answer, "spent", {})}
        if answer.question in asked and answer.answered_at <= other.answered_at:
            return other.question
    return ""


def _section(same: Sequence[SavedAnswer], answers: Sequence[SavedAnswer]) -> PageSection:
    newest, *others = same
    answer = newest.answer
    show = views()[newest.question].section
    assert show is not None, "only answers with a section are saved"
    section = show(answer, [saved.answer for saved in others])
    return PageSection(
        question=newest.question,
        section=replace(section, summary=section.summary + _newer_parts(newest, answers)),
        settings=_settings(getattr(answer, "baseline", {}), getattr(answer, "settings", {})),
        notes=answer.notes,
        not_measured=answer.not_measured,
        evidence=list(dict.fromkeys(kind for item in answer.recommendations for kind in item.evidence)),
        seconds=answer.seconds,
        within=_within(newest, answers),
        machine=answer.machine,
        answered_at=newest.answered_at,
        legroom_version=newest.legroom_version,
    )


def _settings(baseline: dict[str, Any], found: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    return [(name, baseline.get(name), value) for name, value in found.items()]


def render_page(page: Page) -> str:
    """The page as HTML."""
    figures = [asdict(figure) for part in page.sections for figure in part.section.figures]
    asked = [part.section.what_if for part in page.sections if part.section.what_if]
    return _template().render(
        page=page,
        plotly=_plotly(),
        figures=embed_json(figures),
        controls=what_if.CONTROLS,
        what_if=embed_json(asdict(asked[0])) if asked else None,
        laws=what_if.script() if asked else "",
    )


@functools.cache
def _plotly() -> str:
    """plotly.js, packed: 2.0 MB in place of 4.8 MB for 0.15 s, once in a process."""
    from plotly.offline import get_plotlyjs

    return base64.b64encode(gzip.compress(get_plotlyjs().encode(), 6, mtime=0)).decode()


@functools.cache
def _template() -> "Template":
    # Imported here: the template engine costs 0.1 s that `legroom --help` should not pay.
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("legroom", "reports")
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.filters["quantity"] = quantity
    made.filters["took"] = format_seconds
    made.filters |= {"shown": what_if.shown, "labelled": what_if.labelled, "ends": what_if.ends}
    return made.get_template("page.html.j2")


def embed_json(value: Any) -> str:
    r"""JSON that a script element may hold: nothing in it can end the element or be read as markup.

    >>> print(embed_json({"job": "</script><b>"}))
    {"job": "\u003c/script\u003e\u003cb\u003e"}
    """
    text = json_text(value)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
