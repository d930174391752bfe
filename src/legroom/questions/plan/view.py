"""What to run, as a section: every recommendation with its reason."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from legroom.questions.plan.advice import MORE_DEVICES, UNMEASURED, split_recommendations
from legroom.questions.plan.answer import PlanAnswer
from legroom.reports.figures import Column, Section, Table
from legroom.reports.terminal import print_remarks, print_title
from legroom.reports.views import View


def section(answer: PlanAnswer, others: Sequence[PlanAnswer] = ()) -> Section:
    """The section; a folder holds one plan, so there are no others."""
    batch = f"batches of {answer.batch_size:,}"
    if answer.accumulation_steps > 1:
        batch += f", {answer.accumulation_steps} passes an update"
    kept = {item.name for item in split_recommendations(answer)[1]}
    own = " (the job's own rate: which one suits was not measured)" if "learning_rate" in kept else ""
    rate = f"a learning rate of {answer.learning_rate:g}{own}"
    return Section(
        title="What should I run?",
        summary=f"Run {batch} with {_workers(answer.num_workers)} and {rate}.",
        facts=[],
        tables=[_recommendations(answer)],
    )


def _workers(num: int) -> str:
    return {0: "no loader workers", 1: "1 loader worker"}.get(num, f"{num} loader workers")


def _recommendations(answer: PlanAnswer) -> Table:
    found, kept = split_recommendations(answer)
    rows = [
        [item.name, item.value, "" if item.range is None else "{:,} to {:,}".format(*item.range), item.because]
        for item in found
    ]
    rest = ", ".join(f"{item.name} {'none' if item.value is None else item.value}" for item in kept)
    return Table(
        name="plan-settings",
        title="Every setting",
        columns=[
            *(Column(label=label) for label in ("setting", "value", "range")),
            Column(label="because", sentences=True),
        ],
        rows=[*rows, ["the rest", "", "", f"kept as the job has them, not measured: {rest}"]],
    )


def print_plan(console: Console, answer: PlanAnswer) -> None:
    """What was found, each with its reason; what was kept, in one line."""
    print_title(console, answer, f"goal: {answer.goal}")
    found, kept = split_recommendations(answer)
    table = Grid("setting", "value", "range", "because")
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


def _number(value: Any) -> str:
    if value is None:
        return "none"
    return f"{value:,}" if isinstance(value, int) else f"{value}"


VIEW = View(answer=PlanAnswer, print=print_plan, section=section, made_of=("memory", "speed", "loading"))
