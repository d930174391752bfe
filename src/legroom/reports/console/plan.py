"""A plan, and probes that would be run, in a terminal."""

from dataclasses import replace
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from legroom.advisors.combine import MORE_DEVICES, UNMEASURED, PlanAnswer, split_recommendations
from legroom.advisors.foresee import Foreseen
from legroom.reports.console.layout import print_remarks, print_title
from legroom.units import format_seconds


def print_plan(console: Console, answer: PlanAnswer) -> None:
    """What was found, each with its reason; what was kept, in one line."""
    print_title(console, answer, f"goal: {answer.goal}")
    found, kept = split_recommendations(answer)
    table = Table("setting", "value", "range", "because")
    for item in found:
        span = "" if item.range is None else f"{_number(item.range[0])} to {_number(item.range[1])}"
        table.add_row(item.name, _number(item.value), span, escape(item.because))
    console.print(table)
    words = ", ".join(f"{item.name} {_number(item.value)}" for item in kept)
    console.print(f"Kept as the job has them, not measured: {escape(words)}")
    rest = [
        what[:1].upper() + what[1:] for what in answer.not_measured if what not in (*UNMEASURED.values(), MORE_DEVICES)
    ]
    print_remarks(console, replace(answer, not_measured=[], notes=[*answer.notes, *rest]))


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
