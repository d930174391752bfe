"""The answer to `legroom speed` as a person reads it in a terminal."""

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.table import Table

from legroom.advisors.speed import SpeedAnswer
from legroom.reports.console.layout import Row, print_remarks, print_rows, print_title

PHASES = ("forward", "backward", "update")
LEAST_MISSED = ("memory", "of peak", "F/B/U %", "J/sample", "busy", "law", "device")
"""Columns that a narrow terminal goes without, the first of them first."""
HEADS = ("batch", "step", "+-", "device", "samples/s", "busy", "memory", "of peak", "F/B/U %", "law", "J/sample")

LITTLE = 0.005
"""A size the law was fitted from lies on it, unless the host's pace, common to all sizes, stands in there."""


def print_speed(console: Console, answer: SpeedAnswer) -> None:
    """The knee, every size timed, and what the law says."""
    print_title(console, answer, f"{answer.device}, {answer.precision}")
    print_rows(console, speed_rows(answer))
    console.print()
    console.print(_table(answer, console.width))
    print_remarks(console, answer)


def speed_rows(answer: SpeedAnswer) -> Iterable[Row]:
    """The answer in rows."""
    low, high = answer.range
    span = "" if low == high else f" ({low:,} to {high:,})"
    yield "knee", f"{answer.knee_batch_size:,}{span}", answer.recommendations[0].because
    yield "best", f"{answer.best_samples_per_second:,.0f} samples/s", f"at a batch of {answer.best_batch_size:,}"
    yield "largest timed", f"{answer.largest_batch_size:,}", answer.largest_because
    law = answer.law
    if law.get("refused"):
        yield "law", "none", f"four sizes foretell others badly, off by {law['worst_error']:.0%} at worst"
        return
    sizes = ", ".join(f"{size:,}" for size in law["sizes"])
    error = "" if law["mean_error"] is None else f"; off by {law['mean_error']:.1%}, at worst {law['worst_error']:.1%}"
    host = f"host {_time(law['host_seconds'])}, device's " if law.get("host_seconds") else ""
    yield (
        "law",
        f"{host}floor {_time(law['floor_seconds'])}, bend at {law['bend']:,.0f}",
        f"from {sizes}{error} at the others",
    )


def _table(answer: SpeedAnswer, width: int) -> Table:
    """A row a size; figures that no size has, or the terminal has no room for, get no column."""
    rows = [_cells(point, answer) for point in answer.points]
    widths = {
        head: max(len(head), *(len(row[head]) for row in rows)) for head in HEADS if any(row[head] for row in rows)
    }
    for head in LEAST_MISSED:
        if sum(widths.values()) + 3 * len(widths) + 1 > width:
            widths.pop(head, None)
    heads = [head for head in HEADS if head in widths]
    title = "steps: F forward, B backward, U update" if "F/B/U %" in heads else "steps"
    table = Table(*heads, title=title, title_justify="left")
    for row in rows:
        table.add_row(*(row[head] for head in heads))
    return table


def _cells(point: dict[str, Any], answer: SpeedAnswer) -> dict[str, str]:
    size = point["batch_size"]
    mark = " *" if size == answer.knee_batch_size else ""
    shares = "/".join(f"{100 * point['shares'][phase]:.0f}" for phase in PHASES) if len(point["shares"]) == 3 else ""
    joules = point["joules_per_sample"]
    values = (
        f"{size:,}{mark}",
        _time(point["median_seconds"]),
        f"{point['spread']:.0%}",
        _time(point["device_seconds"]) if point.get("device_seconds") else "",
        f"{point['samples_per_second']:,.0f}",
        _share(point["utilisation"]),
        _share(point["memory_utilisation"]),
        _share(point["peak_share"], digits=1),
        shares,
        _law_cell(point),
        "" if joules is None else f"{joules:.3g}",
    )
    return dict(zip(HEADS, values, strict=True))


def _law_cell(point: dict[str, Any]) -> str:
    """How far the law lies from the size; empty where there is no law."""
    if point["predicted_seconds"] is None:
        return ""
    miss = point["predicted_seconds"] / point["median_seconds"] - 1
    return "fitted" if point["in_law"] and abs(miss) < LITTLE else f"{miss:+.1%}"


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:,.2f} ms" if seconds < 1 else f"{seconds:,.2f} s"


def _share(value: float | None, digits: int = 0) -> str:
    return "" if value is None else f"{value:.{digits}%}"
