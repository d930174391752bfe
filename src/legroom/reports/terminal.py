"""What all answers share in a terminal: a title, rows of name and value, and remarks at the end."""

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment
from rich.table import Table

from legroom.questions.base import Answer, Foreseen
from legroom.texts import printable
from legroom.units import format_seconds

Row = tuple[str, str, str]
"""Name, value, remark."""


class PlainConsole(Console):
    """A console that sends its own styles to the terminal, and no command that stands in a text."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The parts as rich makes them, their texts cleaned."""
        for part in super().render(renderable, options):
            yield part if part.control else Segment(printable(part.text), part.style)


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
    table = Table("probe", "how many", "time")
    for probe in answer.probes:
        table.add_row(probe.what, _span(*map(str, probe.num_probes)), _span(*map(format_seconds, probe.seconds)))
    console.print(table)
    total = [sum(probe.seconds[end] for probe in answer.probes) for end in (0, 1)]
    console.print(f"In all {_span(*map(format_seconds, total))}.")
    for note in answer.notes:
        console.print(f"  - {escape(note)}")


def _span(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"
