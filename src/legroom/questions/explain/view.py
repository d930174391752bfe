"""Why a plan says so, in a terminal."""

from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape

from legroom.questions.explain.ask import ExplainAnswer
from legroom.reports.numbers import quantity, target_words
from legroom.reports.offers import print_offers
from legroom.reports.terminal import Grid, print_rows
from legroom.reports.views import View
from legroom.units import format_seconds

UNKNOWN = (
    "The critical batch size was not measured: another batch takes as many updates, or as many samples, or something "
    "between; legroom rate measures it."
)


def print_explain(console: Console, answer: ExplainAnswer) -> None:
    """Each setting with its reason and its numbers."""
    where = f" on {escape(answer.machine)}" if answer.machine else ""
    console.print(f"[bold]{escape(answer.job or 'a plan')}[/bold]{where} ({escape(answer.plan_path)})")
    if answer.predicted_seconds is not None:
        span = (
            "" if answer.predicted_range is None else " ({} to {})".format(*map(format_seconds, answer.predicted_range))
        )
        console.print(
            f"{escape(target_words(answer.target))} is foretold in {format_seconds(answer.predicted_seconds)}{span}."
        )
    elif answer.edited:
        console.print("It was changed by hand, so nothing is foretold: the forecast was of other settings.")
    for item in answer.explained:
        _print_one(console, item)
    if answer.batches:
        _print_batches(console, answer)
    if answer.offers:
        print_offers(console, answer.offers)
    for note in (*answer.notes, *answer.not_measured):
        console.print(f"  - {escape(note)}")


def _print_one(console: Console, item: dict[str, Any]) -> None:
    span = "" if item["range"] is None else " ({} to {})".format(*map(_number, item["range"]))
    console.print(f"\n[bold]{escape(item['name'])} = {escape(_number(item['value']))}[/bold]{escape(span)}")
    if item["edited"]:
        console.print("  [bold]changed by hand[/bold]; reason, range and records are of what the plan had found")
    console.print(f"  {escape(item['because'])}")
    for weight in item["evidence"]:
        paid = f"{weight['num_records']} records, {format_seconds(weight['seconds'])}"
        console.print(f"  [dim]rests on {weight['kind']}: {paid if weight['num_records'] else 'no records here'}[/dim]")
    for finding in item["findings"]:
        console.print(f"  legroom {finding['question']}: {escape(finding['summary'])}")
        print_rows(console, [(f"    {fact[0]}", fact[1], fact[2]) for fact in finding["facts"]])


def _print_batches(console: Console, answer: ExplainAnswer) -> None:
    at = " at the rate that was found, which is not recommended" if answer.kept else ""
    console.print(f"\nWhat other batch sizes would take{at}, by the laws of this plan (forecast):")
    grid = Grid("batch", "updates", "an update", "to the target", "")
    for row in answer.batches:
        steps = _ends(row["num_steps_range"], lambda number: f"{number:,.0f}")
        seconds = _ends(row["seconds_range"], format_seconds)
        step, chosen = quantity(row["step_seconds"], "seconds"), "chosen" if row["chosen"] else ""
        grid.add_row(f"{row['batch_size']:,}", steps, step, seconds, chosen)
    console.print(grid)
    if any(len(set(row["num_steps_range"])) > 1 for row in answer.batches):
        console.print(f"  {UNKNOWN}")


def _ends(ends: Sequence[float], write: Callable[[float], str]) -> str:
    return " to ".join(dict.fromkeys(map(write, ends)))


def _number(value: Any) -> str:
    return "none" if value is None else f"{value:,}" if isinstance(value, int) else f"{value}"


VIEW = View(answer=ExplainAnswer, print=print_explain)
