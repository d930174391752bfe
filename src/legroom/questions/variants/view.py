"""Which variants pay, in a terminal and as a section of the page."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape

from legroom.questions.variants.answer import VariantsAnswer
from legroom.questions.variants.spread import HOPELESS
from legroom.reports.figures import Axis, Column, Figure, Mark, Section, Series, Table
from legroom.reports.numbers import quantity
from legroom.reports.terminal import Grid, print_remarks, print_title
from legroom.reports.views import View

HEADS = ("variant", "verdict", "times as fast", "step", "once", "because")


def summary(answer: VariantsAnswer) -> str:
    """The answer in one sentence."""
    if not answer.chosen:
        return f"None of {', '.join(_tried(answer)) or 'the variants'} pays at batches of {answer.batch_size:,}."
    low, high = answer.speedup_range
    once = f", after {quantity(answer.start_seconds, 'seconds')} of compiling" if answer.start_seconds else ""
    return (
        f"With {' + '.join(answer.chosen)} an update of {answer.batch_size:,} is {answer.speedup:.2f} times as fast "
        f"({low:.2f} to {high:.2f}){once}, and its losses stay within the spread over seeds."
    )


def _tried(answer: VariantsAnswer) -> list[str]:
    return [point["name"] for point in answer.points if len(point["variants"]) == 1]


def print_variants(console: Console, answer: VariantsAnswer) -> None:
    """The sentence, and a row for each variant."""
    print_title(console, answer, f"{answer.device}, batches of {answer.batch_size:,}")
    console.print(f"\n[bold]{escape(summary(answer))}[/bold]\n")
    table = Grid(*HEADS)
    for point in answer.points:
        table.add_row(*map(escape, cells(point)))
    console.print(table)
    print_remarks(console, answer)


def cells(point: dict[str, Any]) -> list[str]:
    """A row of the table, as text."""
    ratio = "" if point["ratio"] is None else "{:.2f} ({:.2f} to {:.2f})".format(point["ratio"], *point["range"])
    step, once = (quantity(point[name] or None, "seconds") for name in ("step_seconds", "start_seconds"))
    mark = " *" if point["chosen"] else ""
    return [point["name"] + mark, point["verdict"], ratio, step, once, point["because"]]


def section(answer: VariantsAnswer, others: Sequence[VariantsAnswer] = ()) -> Section:
    """The section; `others` were asked of other batches or devices."""
    return Section(
        title="Do bf16, channels-last, a fused optimizer or torch.compile pay?",
        summary=summary(answer),
        facts=[],
        figures=[*_ratios(answer), *_losses(answer)],
        tables=[_table(answer), *([_compared([answer, *others])] if others else [])],
    )


def _table(answer: VariantsAnswer) -> Table:
    columns = [*(Column(label=label) for label in HEADS[:-1]), Column(label="because", sentences=True)]
    return Table(
        name="variants-table",
        title="Each variant",
        columns=columns,
        rows=[cells(point) for point in answer.points],
        chosen=[place for place, point in enumerate(answer.points) if point["chosen"]],
    )


def _compared(answers: Sequence[VariantsAnswer]) -> Table:
    columns = [Column(label=label) for label in ("device", "batch", "variants that pay", "times as fast")]
    rows = [[one.device, one.batch_size, " + ".join(one.chosen) or "none", one.speedup] for one in answers]
    return Table(name="variants-compared", title="Other batches and devices", columns=columns, rows=rows)


def _ratios(answer: VariantsAnswer) -> list[Figure]:
    timed = [point for point in answer.points if point["ratio"] is not None]
    if not timed:
        return []
    bars = Series(
        name="measured",
        x=[point["name"] for point in timed],
        y=[point["ratio"] for point in timed],
        style="points",
        low=[point["range"][0] for point in timed],
        high=[point["range"][1] for point in timed],
    )
    return [
        Figure(
            name="variants-ratios",
            title="How many times as fast an update is",
            x=Axis(label="variant"),
            y=Axis(label="times as fast"),
            series=[bars],
            marks=[Mark(axis="y", value=1.0, label="as it is")],
        )
    ]


def _losses(answer: VariantsAnswer) -> list[Figure]:
    """Means over seeds; of the job's own settings with a band from the least to the most."""
    series = []
    for name, curves in answer.curves.items():
        rows = list(zip(*curves, strict=False))
        banded = rows if name == "own" else []
        series.append(
            Series(
                name=name,
                x=list(range(1, 1 + len(rows))),
                y=[sum(row) / len(row) if max(row) < HOPELESS else None for row in rows],
                low=[min(row) for row in banded],
                high=[max(row) for row in banded],
            )
        )
    if not series:
        return []
    x, y = Axis(label="update"), Axis(label="loss, mean over seeds")
    return [Figure(name="variants-losses", title="Losses of the first updates", x=x, y=y, series=series)]


VIEW = View(
    answer=VariantsAnswer,
    print=print_variants,
    section=section,
    circumstances=lambda answer: (answer.device, answer.batch_size, answer.baseline["precision"]),
)
