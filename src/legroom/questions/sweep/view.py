"""A grid of trials in a terminal and on the page: scores, times, utilisation and memory over batch size and rate."""

import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console

from legroom.questions.sweep.answer import SweepAnswer
from legroom.reports.figures import Axis, Column, Figure, HeatMap, Section, Series, Table, Unit
from legroom.reports.terminal import Grid, Row, print_remarks, print_rows, print_title
from legroom.reports.views import View
from legroom.units import format_bytes, format_seconds

MARKS = {"diverged": "diverged", "out_of_memory": "no memory", "failed": "failed"}


def print_sweep(console: Console, answer: SweepAnswer) -> None:
    """The best point, then the grid."""
    print_title(console, answer, answer.device)
    console.print(f"[bold]{_summary(answer)}[/bold]\n")
    print_rows(console, sweep_rows(answer))
    console.print()
    console.print(_grid(answer))
    print_remarks(console, answer)


def sweep_rows(answer: SweepAnswer) -> Iterable[Row]:
    """What was found, a fact a row."""
    best, fastest = answer.best, answer.fastest
    if best is not None:
        value, took = best[answer.watch], format_seconds(best["seconds"])
        yield f"best {answer.watch}", f"{value:.5g}", f"{_words(best)}; after {took}, {best['best_step']:,} updates"
    if fastest is not None:
        took = format_seconds(fastest["seconds_to_target"])
        yield "soonest near it", took, f"{_words(fastest)}; {answer.watch} {fastest['target']:.5g} or better"
    kept = f"ended after {answer.patience} epochs without gain, {answer.together} at once"
    yield "trials", f"{len(answer.points)}", f"{kept}; {answer.num_failed} failed"
    yield "trained on", f"{answer.num_samples:,} samples", "all trials together"


def _words(point: dict[str, Any]) -> str:
    return f"batch {point['batch_size']:,}, rate {point['learning_rate']:.3g}"


def _grid(answer: SweepAnswer) -> Grid:
    table = Grid("batch", "rate", answer.watch, "time to it", "updates", "busy", "memory", "ended by")
    for point in answer.points:
        value, seconds, busy = point[answer.watch], point["seconds"], point["utilisation"]
        table.add_row(
            f"{point['batch_size']:,}",
            f"{point['learning_rate']:.3g}",
            "" if value is None else f"{value:.5g}",
            "" if seconds is None else format_seconds(seconds),
            f"{point['num_steps']:,}",
            "" if busy is None else f"{busy:.0%}",
            "" if point["memory_bytes"] is None else format_bytes(point["memory_bytes"]),
            MARKS.get(point["stopped_because"], point["stopped_because"]),
        )
    return table


def section(answer: SweepAnswer, others: Sequence[SweepAnswer] = ()) -> Section:
    """The section of the page."""
    return Section(
        title="What does every batch size give at every rate?",
        summary=_summary(answer),
        facts=list(sweep_rows(answer)),
        figures=list(_figures(answer, others)),
        tables=[_table(answer)],
    )


def _summary(answer: SweepAnswer) -> str:
    if answer.best is None:
        ends = {point["stopped_because"] for point in answer.points}
        return "All trials diverged." if ends == {"diverged"} else f"No trial came to a {answer.watch}."
    value = answer.best[answer.watch]
    return f"The best of {len(answer.points)} points, {_words(answer.best)}, came to a {answer.watch} of {value:.4g}."


def _figures(answer: SweepAnswer, others: Sequence[SweepAnswer]) -> Iterable[Figure]:
    """Over batch and rate: score and time. Over the batch: utilisation, time and memory. Over the rate: scores.

    Sweeps of other devices, precisions or machines lie beside this one in what is drawn over the batch alone.
    """
    every = [answer, *others]
    yield _heat(answer, answer.watch, answer.watch, "")
    yield _heat(answer, "seconds", "time to the best score", "seconds")
    yield _lines(answer, answer.watch, answer.watch, "")
    yield _lines(answer, "seconds", "time to the best score", "seconds")
    for key, label, unit in (("utilisation", "utilisation", "share"), ("memory_bytes", "memory at most", "bytes")):
        if any(point[key] is not None for each in every for point in each.points):
            yield _by_batch(every, key, label, unit)  # type: ignore[arg-type]
    yield _over_rates(answer)


def _axes(answer: SweepAnswer) -> tuple[list[int], list[float]]:
    sizes = sorted({point["batch_size"] for point in answer.points})
    return sizes, sorted({point["learning_rate"] for point in answer.points})


def _value(answer: SweepAnswer, size: int, rate: float, key: str) -> float | None:
    """Of the point; where several differ in workers alone, the middle."""
    found = [
        point[key]
        for point in answer.points
        if (point["batch_size"], point["learning_rate"]) == (size, rate) and point[key] is not None
    ]
    return statistics.median(found) if found else None


def _heat(answer: SweepAnswer, key: str, label: str, unit: Unit) -> Figure:
    sizes, rates = _axes(answer)
    best = answer.best
    heat = HeatMap(
        x=[f"{size:,}" for size in sizes],
        y=[f"{rate:.3g}" for rate in rates],
        values=[[_value(answer, size, rate, key) for size in sizes] for rate in rates],
        label=label,
        unit=unit,
        log=key == "seconds",
        chosen=None if best is None else (f"{best['batch_size']:,}", f"{best['learning_rate']:.3g}"),
    )
    title = f"{label.capitalize()} by batch size and learning rate"
    x, y = Axis(label="batch size"), Axis(label="learning rate")
    return Figure(name=f"sweep-{key}-grid", title=title, x=x, y=y, heat=heat)


def _lines(answer: SweepAnswer, key: str, label: str, unit: Unit) -> Figure:
    sizes, rates = _axes(answer)
    series = [
        Series(name=f"rate {rate:.3g}", x=list(sizes), y=[_value(answer, size, rate, key) for size in sizes])
        for rate in rates
    ]
    return _over_batches(f"sweep-{key}", f"{label.capitalize()} against batch size", label, unit, series)


def _by_batch(every: Sequence[SweepAnswer], key: str, label: str, unit: Unit) -> Figure:
    """A line a sweep. The rate hardly moves these: the middle over all rates."""
    series = [_middles(each, key, _name(each) if len(every) > 1 else label) for each in every]
    return _over_batches(f"sweep-{key}", f"{label.capitalize()} against batch size", label, unit, series)


def _middles(answer: SweepAnswer, key: str, name: str) -> Series:
    sizes, rates = _axes(answer)
    known = [[v for rate in rates if (v := _value(answer, size, rate, key)) is not None] for size in sizes]
    return Series(name=name, x=list(sizes), y=[statistics.median(row) if row else None for row in known])


def _name(answer: SweepAnswer) -> str:
    """What tells a sweep from others on the page."""
    return f"{answer.device} {answer.settings['precision']}, {answer.machine}"


def _over_batches(name: str, title: str, label: str, unit: Unit, series: list[Series]) -> Figure:
    x, y = Axis(label="batch size", log=True), Axis(label=label, unit=unit)
    return Figure(name=name, title=title, x=x, y=y, series=series)


def _over_rates(answer: SweepAnswer) -> Figure:
    sizes, rates = _axes(answer)
    series = [
        Series(name=f"batch {size:,}", x=list(rates), y=[_value(answer, size, rate, answer.watch) for rate in rates])
        for size in sizes
    ]
    return Figure(
        name="sweep-rates",
        title=f"{answer.watch.capitalize()} against learning rate",
        x=Axis(label="learning rate", log=True),
        y=Axis(label=answer.watch),
        series=series,
    )


def _table(answer: SweepAnswer) -> Table:
    keys: list[tuple[str, str, Unit]] = [
        ("batch_size", "batch size", ""),
        ("learning_rate", "learning rate", ""),
        ("num_workers", "workers", ""),
        (answer.watch, answer.watch, ""),
        ("seconds", "time to it", "seconds"),
        ("train_seconds", "whole trial", "seconds"),
        ("num_steps", "updates", ""),
        ("utilisation", "utilisation", "share"),
        ("memory_bytes", "memory", "bytes"),
    ]
    columns = [Column(label=label, unit=unit) for _, label, unit in keys]
    rows = [
        [*(point[key] for key, _, _ in keys), point["failure"] or point["stopped_because"]] for point in answer.points
    ]
    chosen = [place for place, point in enumerate(answer.points) if point == answer.best]
    return Table(
        name="sweep-points",
        title="Every trial",
        columns=[*columns, Column(label="ended by", sentences=True)],
        rows=rows,
        chosen=chosen,
    )


def circumstances(answer: SweepAnswer) -> tuple[object, ...]:
    """One sweep for each device and precision."""
    return answer.device, answer.settings["precision"], answer.machine


VIEW = View(answer=SweepAnswer, print=print_sweep, section=section, circumstances=circumstances)
