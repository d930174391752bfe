"""Several folders on one page: the same questions of several machines or runs, a column each, their curves together."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from legroom.errors import UsageError
from legroom.files import Claim, write_atomically
from legroom.reports.figures import Column, Figure, Mark, Section, Series, Table
from legroom.reports.numbers import quantity
from legroom.reports.page import FILE_NAME as REPORT_NAME
from legroom.reports.page import Page, PageSection, gather_page, render_page
from legroom.reports.views import views
from legroom.units import format_seconds

FILE_NAME = "comparison.html"
MOST_SERIES = 3
"""Of a figure: with more of each folder nobody can tell them apart, so they stand side by side."""

Parts = dict[str, PageSection]
"""A section by its folder's label."""


def report(folder: Path, *others: Path) -> tuple[Page, Path]:
    """Write report.html of the folder anew, or comparison.html of it and others; returns what it shows and its path.

    Nothing is measured, and nothing is written into the others.
    """
    page = gather_comparison([folder, *others]) if others else gather_page(folder)  # first: else no lock is left either
    with Claim(folder):
        path = folder / (FILE_NAME if others else REPORT_NAME)
        write_atomically(path, render_page(page))
        return page, path


def gather_comparison(folders: Sequence[Path]) -> Page:
    """A section for each question that one of the folders knows, after one that tells the folders apart."""
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise UsageError("A folder is named twice. Name each once: legroom report A B")
    pages = {label: gather_page(folder) for label, folder in zip(labels(folders), folders, strict=True)}
    jobs = list(dict.fromkeys(page.job for page in pages.values()))
    different = [f"The folders are of different jobs: {', '.join(jobs)}."] if len(jobs) > 1 else []
    found = [
        {label: part for label, page in pages.items() for part in page.sections if part.question == question}
        for question in views()
    ]
    return Page(
        job=" and ".join(jobs),
        name=f"{' and '.join(dict.fromkeys(page.name for page in pages.values()))}: {', '.join(pages)}",
        sections=[_folders(pages), *(_together(parts, list(pages)) for parts in found if parts)],
        notes=[*different, *(f"{label}: {note}" for label, page in pages.items() for note in page.notes)],
    )


def labels(folders: Sequence[Path]) -> list[str]:
    """What to call each folder: its name, or its whole path where two share a name.

    >>> labels([Path("runs/k80"), Path("runs/p100")]), labels([Path("a/run"), Path("b/run")])
    (['k80', 'p100'], ['a/run', 'b/run'])
    """
    names = [folder.resolve().name for folder in folders]
    return names if len(set(names)) == len(names) else [str(folder) for folder in folders]


def _folders(pages: dict[str, Page]) -> PageSection:
    rows = [
        ["job", *(page.job for page in pages.values())],
        ["machine", *("; ".join(dict.fromkeys(part.machine for part in page.sections)) for page in pages.values())],
        ["measuring took", *(format_seconds(page.seconds) for page in pages.values())],
        ["answers", *(", ".join(part.question for part in page.sections) for page in pages.values())],
    ]
    table = _table("compared-folders", "Folders", list(pages), rows)
    section = Section(title="What is compared?", summary=_list(list(pages)), facts=[], tables=[table])
    return PageSection(question="folders", section=section)


def _list(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}, side by side."


def _together(parts: Parts, names: Sequence[str]) -> PageSection:
    """One question: what each folder says, a row a fact; figures with the curves of all."""
    first = next(iter(parts.values()))
    facts = {label: _facts(part.section) for label, part in parts.items()}
    rows = [["answer", *(parts[name].section.summary if name in parts else "not asked" for name in names)]]
    for row in dict.fromkeys(name for found in facts.values() for name in found):
        rows.append([row, *(facts.get(name, {}).get(row, "") for name in names)])
    settings = _settings(parts, names)
    tables = [
        replace(_table(f"compared-{first.question}", "Side by side", names, rows), opens=True),
        *([_table(f"compared-{first.question}-settings", "Settings", names, settings)] if settings else []),
    ]
    section = Section(title=first.section.title, summary="", facts=[], figures=list(_figures(parts)), tables=tables)
    return PageSection(question=first.question, section=section)


def _facts(section: Section) -> dict[str, str]:
    """What a section says, by name: rows of the table that opens it, as before → after, and its facts."""
    opening = [table for table in section.tables if table.opens]
    found = dict(_before_and_after(table, row) for table in opening for row in table.rows)
    for name in dict.fromkeys(name for name, _, _ in section.facts):
        found[name] = ". ".join(value or remark for fact, value, remark in section.facts if fact == name)
    return found


def _before_and_after(table: Table, row: Sequence[Any]) -> tuple[str, str]:
    """The name of a row and its values, reasons left out; one alone where nothing changes."""
    name, *values = (
        str(cell) for cell, column in zip(row, table.columns, strict=True) if cell and not column.sentences
    )
    return name, " \u2192 ".join(dict.fromkeys(values))


def _settings(parts: Parts, names: Sequence[str]) -> list[list[Any]]:
    """Settings in which the folders that were asked differ."""
    found = {label: {name: quantity(value) for name, _, value in part.settings} for label, part in parts.items()}
    every = dict.fromkeys(name for settings in found.values() for name in settings)
    differ = [row for row in every if len({settings.get(row) for settings in found.values()}) > 1]
    return [[row, *(found.get(name, {}).get(row, "") for name in names)] for row in differ]


def _figures(parts: Parts) -> Iterable[Figure]:
    """Each figure once with the curves of all folders, or, where those would hide each other, once for each."""
    drawn = {label: {figure.name: figure for figure in part.section.figures} for label, part in parts.items()}
    for name in dict.fromkeys(name for figures in drawn.values() for name in figures):
        same = {label: figures[name] for label, figures in drawn.items() if name in figures}
        if all(map(_may_be_overlaid, same.values())) and len({figure.y.unit for figure in same.values()}) == 1:
            yield _overlaid(same)
        else:
            for place, (label, figure) in enumerate(same.items()):
                yield replace(figure, name=f"{name}-{place}", title=f"{label}: {figure.title}")


def _may_be_overlaid(figure: Figure) -> bool:
    stacked = figure.stacked or (figure.y.unit == "share" and any(one.style == "bars" for one in figure.series))
    return not stacked and figure.heat is None and len(figure.series) <= MOST_SERIES


def _overlaid(same: dict[str, Figure]) -> Figure:
    first = next(iter(same.values()))
    series = [_named(one, label) for label, figure in same.items() for one in figure.series]
    return replace(first, series=series, marks=list(_marks(same)))


def _marks(same: dict[str, Figure]) -> Iterable[Mark]:
    """The marks of all folders; one that several share is told once, with all their names."""
    found: dict[Mark, list[str]] = {}
    for label, figure in same.items():
        for mark in figure.marks:
            found.setdefault(mark, []).append(label)
    for mark, names in found.items():
        yield replace(mark, label=f"{', '.join(names)}: {mark.label}")


def _named(series: Series, label: str) -> Series:
    return replace(series, name=f"{label}: {series.name}", group=label)


def _table(name: str, title: str, names: Sequence[str], rows: list[list[Any]]) -> Table:
    return Table(name=name, title=title, columns=[Column(label=""), *(Column(label=one) for one in names)], rows=rows)
