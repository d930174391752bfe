"""A proof in a terminal and on the page."""

from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape

from legroom.questions.prove.answer import ProveAnswer
from legroom.questions.prove.words import sentence
from legroom.reports.figures import Axis, Column, Figure, Mark, Section, Series, Table
from legroom.reports.terminal import Grid, Row, print_remarks, print_rows, print_title
from legroom.reports.views import View
from legroom.units import format_seconds

COLUMNS = ("run", "seed", "target met", "seconds", "updates", "value", "of the run", "last value")


def print_prove(console: Console, answer: ProveAnswer) -> None:
    """The verdict first, then what it rests on."""
    print_title(console, answer, f"{answer.device}, {answer.plan_path} against {answer.against}")
    console.print(f"[bold]{escape(sentence(answer))}[/bold]\n")
    print_rows(console, prove_rows(answer))
    console.print(_grid(answer.points))
    print_remarks(console, answer)


def prove_rows(answer: ProveAnswer) -> Iterable[Row]:
    """What was found, a fact a row."""
    name, num = answer.target["name"], len(answer.seeds)
    for arm in ("plan", "rival"):
        seconds, score = getattr(answer, f"{arm}_seconds"), getattr(answer, f"{arm}_score")
        reached, steps = getattr(answer, f"num_{arm}_reached"), getattr(answer, f"{arm}_steps")
        took = "never" if seconds is None else format_seconds(seconds)
        value = "" if score is None else f", {name} {score:.4g}"
        yield f"{arm} to the target", took, f"{reached} of {num} seeds met it, {steps:,.0f} updates{value}"
    if answer.speedup is not None:
        span = "" if answer.range is None else "{:.2f} to {:.2f} at 90 %, by the seeds".format(*answer.range)
        yield "speedup", f"{'at least ' if answer.at_least else ''}{answer.speedup:.2f}", span
    if answer.plan_money is not None:
        beside = "" if answer.rival_money is None else f"the rival's {answer.rival_money:.3g}"
        yield "money to the target", f"{answer.plan_money:.3g}", beside
    if answer.plan_cost_seconds is not None:
        yield "the plan took", format_seconds(answer.plan_cost_seconds), _paid(answer)
    if answer.predicted_seconds is not None and answer.predicted_range is not None:
        low, high = map(format_seconds, answer.predicted_range)
        measured = "never" if answer.plan_seconds is None else format_seconds(answer.plan_seconds)
        yield "foretold", format_seconds(answer.predicted_seconds), f"{low} to {high}; measured {measured}"


def _paid(answer: ProveAnswer) -> str:
    runs = answer.payback_runs
    if runs is None:
        return "it saves no time, so nothing pays for it"
    if answer.verdict != "won":
        return "whether that is paid back, the runs do not tell"
    return "paid back within the first run" if runs <= 1 else f"paid back after {runs:,.1f} runs"


def _cells(point: dict[str, Any]) -> list[Any]:
    title = {"plan": "plan", "rival": "rival", "plan_long": "plan, longer"}[point["arm"]]
    return [
        title, point["seed"], "yes" if point["reached"] else "no", point["seconds"], point["num_steps"],
        point["value"], point["run_seconds"], point["last_value"],
    ]  # fmt: skip


def _grid(points: Sequence[dict[str, Any]]) -> Grid:
    grid = Grid(*COLUMNS)
    for point in points:
        cells = _cells(point)
        texts = ["" if cell is None else f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in cells]
        grid.add_row(*texts)
    return grid


def section(answer: ProveAnswer, others: Sequence[ProveAnswer] = ()) -> Section:
    """The section of the page."""
    units = {"seconds": "seconds", "of the run": "seconds"}
    return Section(
        title="Did the plan pay?",
        summary=sentence(answer),
        facts=list(prove_rows(answer)),
        figures=[_curves(answer)],
        tables=[
            Table(
                name="prove-runs",
                title="Every run",
                columns=[Column(label=label, unit=units.get(label, "")) for label in COLUMNS],  # type: ignore[arg-type]
                rows=[_cells(point) for point in answer.points],
            )
        ],
    )


def _curves(answer: ProveAnswer) -> Figure:
    name = answer.target["name"]
    return Figure(
        name="prove-curves",
        title=f"Validation {name} over the time of each run",
        x=Axis(label="time", unit="seconds"),
        y=Axis(label=name),
        series=[
            Series(
                name=f"{_cells(point)[0]}, seed {point['seed']}",
                x=point["curve"]["seconds"],
                y=list(point["curve"]["value"]),
                style="dashes" if point["arm"] == "rival" else "line",
            )
            for point in answer.points
        ],
        marks=[Mark(axis="y", value=answer.target["value"], label="target")],
    )


def circumstances(answer: ProveAnswer) -> tuple[object, ...]:
    """One answer for each pair of arms and target."""
    return answer.device, answer.against, answer.target["name"], answer.target["value"]


VIEW = View(answer=ProveAnswer, print=print_prove, section=section, circumstances=circumstances)
