"""A plan, and probes that would be run, in a terminal."""

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from legroom.advisors.combine import PlanAnswer
from legroom.advisors.foresee import Foreseen
from legroom.reports.console.layout import print_remarks, print_title
from legroom.units import format_seconds


def print_plan(console: Console, answer: PlanAnswer) -> None:
    """Every recommendation with its reason."""
    print_title(console, answer, f"goal: {answer.goal}")
    table = Table("setting", "value", "range", "because")
    for item in answer.recommendations:
        span = "" if item.range is None else f"{_number(item.range[0])} to {_number(item.range[1])}"
        table.add_row(item.name, _number(item.value), span, escape(item.because))
    console.print(table)
    print_remarks(console, answer)


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


def _number(value: Any) -> str:
    if value is None:
        return "none"
    return f"{value:,}" if isinstance(value, int) else f"{value}"
