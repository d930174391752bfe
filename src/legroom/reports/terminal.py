"""What answers share in a terminal: title, rows, remarks; several side by side; foreseen probes; the built-in jobs."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment
from rich.table import Column, Table

from legroom.questions.base import Answer, Foreseen
from legroom.reports.numbers import quantity
from legroom.reports.views import section_of
from legroom.texts import printable
from legroom.units import format_seconds
from legroom.workloads import Workload
from legroom.workloads.readers.published import DataPlace

Row = tuple[str, str, str]
"""Name, value, remark."""
ABOUT_OPTIONS = (
    "Options are set by --with name=value; --data DIR is short for --with data=DIR. Without it, data sets are looked "
    "for in the folder that LEGROOM_DATA names; --with data=synthetic does without them."
)


class PlainConsole(Console):
    """A console that sends its own styles to the terminal, and takes the terminal's commands out of texts."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The parts as rich makes them, their texts cleaned."""
        for part in super().render(renderable, options):
            yield part if part.control else Segment(printable(part.text), part.style)


class Grid(Table):
    """A table whose long words go on in the next line; rich cuts off what a narrow terminal has no room for."""

    def __init__(self, *heads: str, **words: Any) -> None:
        super().__init__(*(Column(head, overflow="fold") for head in heads), **words)


def print_title(console: Console, answer: Answer, circumstances: str) -> None:
    """The job, the machine and what else the answer holds for."""
    console.print(f"[bold]{escape(answer.job)}[/bold] on {escape(answer.machine)} ({escape(circumstances)})")


def print_rows(console: Console, rows: Iterable[Row]) -> None:
    """Name, value and remark, aligned."""
    table = Table.grid(padding=(0, 2))
    for _ in ("name", "value", "remark"):
        table.add_column(overflow="fold")  # a path that is cut short names no file
    for name, value, remark in rows:
        table.add_row(escape(name), f"[bold]{escape(value)}[/bold]", f"[dim]{escape(remark)}[/dim]")
    console.print(table)


def print_remarks(console: Console, answer: Answer) -> None:
    """Notes, what was not measured, and what asking cost."""
    for title, lines in (("Notes", answer.notes), ("Not measured", answer.not_measured)):
        if lines:
            console.print(f"\n[bold]{title}[/bold]")
            for line in lines:
                console.print(f"  - {escape(line)}")
    took = (
        f"Measuring took {format_seconds(answer.seconds)}." if answer.seconds else "Nothing had to be measured again."
    )
    console.print(f"\n{took}")


def print_foreseen(console: Console, answer: Foreseen) -> None:
    """The probes a command would run, and their time."""
    print_title(console, answer, "nothing was run")
    table = Grid("probe", "how many", "time")
    for probe in answer.probes:
        table.add_row(probe.what, _span(*map(str, probe.num_probes)), _span(*map(format_seconds, probe.seconds)))
    console.print(table)
    total = [sum(probe.seconds[end] for probe in answer.probes) for end in (0, 1)]
    console.print(f"In all {_span(*map(format_seconds, total))}.")
    for note in answer.notes:
        console.print(f"  - {escape(note)}")


def _span(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"


def print_several(answers: Sequence[Answer], missing: Sequence[str], printer: Callable[[Console, Any], None]) -> None:
    """Each answer in full, the last one asked first; then the table that compares them, and what has no answer."""
    console = PlainConsole()
    for answer in reversed(answers):
        printer(console, answer)
        console.print()
    for table in section_of(answers).tables[:1]:
        grid = Grid(*(column.label for column in table.columns), title=table.title, title_justify="left")
        for row in table.rows:
            grid.add_row(*(quantity(value, column.unit) for value, column in zip(row, table.columns, strict=True)))
        console.print(grid)
    for why in missing:
        console.print(f"\n[bold]Not measured[/bold]\n  - {escape(why)}")


def print_jobs(console: Console, workloads: Sequence[Workload]) -> None:
    """The built-in jobs, each with its number of parameters, its data and its options."""
    for workload in workloads:
        console.print(f"[bold]{workload.name}[/bold]  {escape(workload.summary)}", highlight=False)
        _print_grid(console, [("parameters", _count_words(workload)), *_data_rows(workload.data)])
        options = workload.options.items()
        _print_grid(console, [(f"{name}={default}", workload.meanings.get(name, "")) for name, default in options])
        console.print()
    console.print(ABOUT_OPTIONS)


def _print_grid(console: Console, rows: Iterable[tuple[str, str]]) -> None:
    table = Table.grid(padding=(0, 2))
    for name, words in rows:
        table.add_row(f"    {escape(name)}", f"[dim]{escape(words)}[/dim]")
    console.print(table)


def _count_words(workload: Workload) -> str:
    counts = [f"{count:,}{f' with {option}' if option else ''}" for option, count in workload.parameters.items()]
    return f"{'; '.join(counts)}; changed by {', '.join(workload.sized_by)}"


def _data_rows(places: Sequence[DataPlace]) -> Iterable[tuple[str, str]]:
    for number, place in enumerate(places):
        asked = f"with {place.option}: " if place.option else ""
        found = "found" if place.found else f"not found; published at {place.published_at}"
        yield "" if number else "data set", f"{asked}{place.title}, in {place.path}: {found}"
