"""Answers to one question in several circumstances, in a terminal."""

from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from legroom.questions.base import Answer
from legroom.reports.figures import Table
from legroom.reports.page import quantity
from legroom.reports.terminal import PlainConsole
from legroom.reports.views import section_of


def print_several(answers: Sequence[Answer], missing: Sequence[str], printer: Callable[[Console, Any], None]) -> None:
    """Each answer in full, the last one asked first; then the table that compares them, and what has no answer."""
    console = PlainConsole()
    for answer in reversed(answers):
        printer(console, answer)
        console.print()
    for table in section_of(answers).tables[:1]:
        _print_table(console, table)
    for why in missing:
        console.print(f"\n[bold]Not measured[/bold]\n  - {escape(why)}")


def _print_table(console: Console, table: Table) -> None:
    grid = Grid(*(column.label for column in table.columns), title=table.title, title_justify="left")
    for row in table.rows:
        grid.add_row(*(quantity(value, column.unit) for value, column in zip(row, table.columns, strict=True)))
    console.print(grid)
