"""Where a larger batch stops paying: throughput, time of an epoch and utilisation against the batch."""

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from rich.console import Console

from legroom.questions.speed.answer import SpeedAnswer
from legroom.reports.figures import Axis, Column, Figure, Mark, Section, Series, Table
from legroom.reports.numbers import epoch_label, epoch_seconds
from legroom.reports.terminal import Grid, Row, print_remarks, print_rows, print_title
from legroom.reports.views import View

LONGEST = 60
"""Letters of the sizes that a person named, in the name of a file."""


def section(answer: SpeedAnswer, others: Sequence[SpeedAnswer] = ()) -> Section:
    """The section; `others` were asked of other devices or precisions."""
    every = [answer, *others]
    return Section(
        title="Where does a larger batch stop paying?",
        summary=_summary(answer),
        facts=list(speed_rows(answer)),
        figures=[_throughput(every), _epoch(every), *_utilisation(every), *_memory(every), *_phases(answer)],
        tables=[_points(answer)],
    )


def circumstances(answer: SpeedAnswer) -> tuple[object, ...]:
    """What tells this answer from others of the same question."""
    rule = [] if answer.rule == "throughput" else [answer.rule]
    share = [] if answer.share == 0.9 else [f"{answer.share:g}"]
    sizes, quick = answer.batch_sizes, ["quick"] if answer.quick else []
    named = [_named(sizes)] if sizes else []
    return answer.device, answer.precision, answer.machine, *rule, *share, *named, *quick


def _named(sizes: Sequence[int]) -> str:
    """The sizes; of many how many they are and a checksum, as the answer's file is named after them."""
    listed = "sizes " + ", ".join(map(str, sorted(set(sizes))))
    if len(listed) <= LONGEST:
        return listed
    return f"{len(set(sizes))} sizes {min(sizes)} to {max(sizes)}, {zlib.crc32(listed.encode()):08x}"


def _summary(answer: SpeedAnswer) -> str:
    known = [*answer.points, *answer.predictions]  # an older answer may name a knee that the law alone foretold
    knee = next((point for point in known if point["batch_size"] == answer.knee_batch_size), None)
    share = "" if knee is None else f" ({knee['samples_per_second'] / answer.best_samples_per_second:.0%} of the best)"
    if answer.rule == "utilisation":
        share = ""
    return (
        f"From a batch of {answer.knee_batch_size:,} on{share}, a larger one hardly pays; the best timed was "
        f"{answer.best_samples_per_second:,.0f} samples/s at {answer.best_batch_size:,}."
    )


def _throughput(every: Sequence[SpeedAnswer]) -> Figure:
    answer = every[0]
    law = Series(
        name="law",
        x=[point["batch_size"] for point in answer.predictions],
        y=[point["samples_per_second"] for point in answer.predictions],
        style="dashes",
    )
    measured = [
        _series(one, _name(one, every) or "measured", "samples_per_second", spread=[p["spread"] for p in one.points])
        for one in every
    ]
    axis, series = Axis(label="throughput", unit="samples/s"), [*measured, *([law] if answer.predictions else [])]
    return _figure("speed-rate", "Samples per second against batch size", axis, series, knee=answer.knee_batch_size)


def _epoch(every: Sequence[SpeedAnswer]) -> Figure:
    label, axis = epoch_label(every[0]), Axis(label=epoch_label(every[0]), unit="seconds")
    title = f"{label.capitalize()} against batch size, loading left out"
    series = [
        replace(
            _series(one, _name(one, every) or "steps", "samples_per_second"),
            y=[epoch_seconds(one, point["samples_per_second"]) for point in one.points],
        )
        for one in every
    ]
    return _figure("speed-epoch", title, axis, series, knee=every[0].knee_batch_size)


def _utilisation(every: Sequence[SpeedAnswer]) -> Iterable[Figure]:
    """How busy the device was (the thesis' figure 3.2); absent where nobody could read it."""
    names = {"utilisation": "device busy", "memory_utilisation": "its memory busy", "peak_share": "of peak FLOP/s"}
    series = [
        _series(one, ", ".join(filter(None, (name, _name(one, every)))), key)
        for one in every
        for key, name in names.items()
        if any(point[key] is not None for point in one.points)
    ]
    if series:
        axis = Axis(label="share", unit="share")
        yield _figure("speed-utilisation", "Utilisation against batch size", axis, series)


def _memory(every: Sequence[SpeedAnswer]) -> Iterable[Figure]:
    """What each size took (the thesis' figure 3.2); absent where nobody read it."""
    lines = [_series(one, _name(one, every) or "peak", "peak_bytes") for one in every]
    series = [replace(line, y=[peak or None for peak in line.y]) for line in lines if any(line.y)]
    if series:
        axis = Axis(label="peak", unit="bytes")
        yield _figure("speed-memory", "Memory against batch size, as timed", axis, series)


def _phases(answer: SpeedAnswer) -> Iterable[Figure]:
    seen = [point for point in answer.points if point["shares"]]
    if seen:
        sizes = [f"{point['batch_size']:,}" for point in seen]
        series = [
            Series(name=phase, x=sizes, y=[point["shares"].get(phase) for point in seen], style="bars")
            for phase in seen[0]["shares"]
        ]
        axis = Axis(label="share of the step", unit="share")
        figure = _figure("speed-phases", "Where a step's time goes", axis, series)
        yield replace(figure, x=Axis(label="batch size"))


def _figure(name: str, title: str, y: Axis, series: list[Series], knee: int | None = None) -> Figure:
    marks = [] if knee is None else [Mark(axis="x", value=knee, label=f"knee {knee:,}")]
    return Figure(name=name, title=title, x=Axis(label="batch size", log=True), y=y, series=series, marks=marks)


def _series(one: SpeedAnswer, name: str, key: str, **more: Any) -> Series:
    sizes, values = ([point[word] for point in one.points] for word in ("batch_size", key))
    return Series(name=name, x=sizes, y=values, **more)


def _name(one: SpeedAnswer, every: Sequence[SpeedAnswer]) -> str:
    """What tells it from the others; empty where it is alone."""
    if len(every) == 1:
        return ""
    return f"{one.device if one.device == 'cpu' else one.machine.rpartition(', ')[2]}, {one.precision}"


def _points(answer: SpeedAnswer) -> Table:
    """A row a size; what the device alone needs has a column where it was read."""
    apart = any(point.get("device_seconds") for point in answer.points)
    return Table(
        name="speed-points",
        title="Every size timed",
        columns=[
            Column(label="batch size"),
            Column(label="step", unit="seconds"),
            *([Column(label="device alone", unit="seconds")] if apart else []),
            Column(label="samples/s", unit="samples/s"),
            Column(label=epoch_label(answer), unit="seconds"),
            Column(label="busy", unit="share"),
            Column(label="memory", unit="bytes"),
        ],
        rows=[
            [
                point["batch_size"],
                point["median_seconds"],
                *([point.get("device_seconds")] if apart else []),
                point["samples_per_second"],
                epoch_seconds(answer, point["samples_per_second"]),
                point["utilisation"],
                point["peak_bytes"] or None,
            ]
            for point in answer.points
        ],
        chosen=[place for place, one in enumerate(answer.points) if one["batch_size"] == answer.knee_batch_size],
    )


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


def _table(answer: SpeedAnswer, width: int) -> Grid:
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
    table = Grid(*heads, title=title, title_justify="left")
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


VIEW = View(answer=SpeedAnswer, print=print_speed, section=section, circumstances=circumstances)
