"""What more devices give, in a terminal and on the page."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rich.console import Console

from legroom.questions.base import Answer
from legroom.questions.devices.answer import DevicesAnswer, TableAnswer
from legroom.questions.devices.tables import measured_tables, more_tables, points_table, published_tables, wire_table
from legroom.reports.figures import Axis, Figure, Section, Series, Table, Unit
from legroom.reports.numbers import quantity
from legroom.reports.terminal import Grid, Row, print_remarks, print_rows, print_title
from legroom.reports.views import View

SHOWN = (1, 2, 4, 8, 16, 64, 256, 1024, 4096)
"""Numbers of devices that a terminal shows; the page and --json have all."""

WIDE = ("batch each", "epoch", "efficiency")
"""Columns that the page alone shows."""


def print_devices(console: Console, answer: DevicesAnswer | TableAnswer) -> None:
    """The recommendation, the points, the wire, and what they rest on."""
    if isinstance(answer, TableAnswer):
        print_title(console, answer, "published times")
        for table in published_tables(answer):
            _print_table(console, table)
        print_remarks(console, answer)
        return
    print_title(console, answer, f"{answer.device}, batch {answer.batch_size:,}")
    print_rows(console, rows(answer))
    measured = {point["num_devices"] for point in answer.points if not point["predicted"]}
    shown = [point for point in answer.points if point["num_devices"] in {*SHOWN, *measured}]
    for table in (points_table(answer, shown), *measured_tables(answer)[:1], wire_table(answer)):
        _print_table(console, _narrow(table))
    print_remarks(console, answer)


def _narrow(table: Table) -> Table:
    """The table without what a terminal has no room for; efficiency is the speed-up over devices."""
    kept = [place for place, column in enumerate(table.columns) if column.label not in WIDE]
    return replace(
        table,
        columns=[table.columns[place] for place in kept],
        rows=[[row[place] for place in kept] for row in table.rows],
    )


def _print_table(console: Console, table: Table) -> None:
    if not table.rows:
        return
    grid = Grid(*(column.label for column in table.columns), title=table.title, title_justify="left")
    for row in table.rows:
        grid.add_row(*(quantity(value, column.unit) for value, column in zip(row, table.columns, strict=True)))
    console.print(grid)


def rows(answer: DevicesAnswer) -> Iterable[Row]:
    """What was found, a fact a row."""
    because = {item.name: item.because for item in answer.recommendations}
    yield "devices", f"{answer.num_devices:,}", because["num_devices"]
    how = "the global batch shared" if answer.scaling == "strong" else "each its own"
    yield "batch of each", f"{answer.device_batch_size:,}", how
    rate = next((item for item in answer.recommendations if item.name == "learning_rate"), None)
    if rate is not None:
        yield "learning rate", f"{rate.value:.3g}", rate.because
    if answer.bandwidth_bytes_per_second is not None and answer.latency_seconds is not None:
        link = f"{answer.bandwidth_bytes_per_second / 1e9:.3g} GB/s, {answer.latency_seconds * 1e6:.3g} us a message"
        source = "measured by all-reduces of several sizes" if answer.link["measured"] else "named, not measured"
        yield "link", link, f"{answer.link['name']}, {source}"
    if answer.messages:
        best = max(each["bus_bytes_per_second"] for each in answer.messages)
        yield "bus", f"{best / 1e9:.3g} GB/s", "at best, 2(N-1)/N * bytes / seconds, 1e9 bytes a GB"
    pays = "twice the devices, under 1.3 times faster"
    yield "stops paying", _stops(answer), pays if answer.stops_paying_at else answer.no_more_because or pays
    if "bucket_cap_mb" in because:
        cap = "torch's own" if answer.bucket_cap_mb is None else f"{answer.bucket_cap_mb:g}"
        yield "bucket_cap_mb", cap, because["bucket_cap_mb"]
    yield "broadcast_buffers", str(answer.broadcast_buffers), because["broadcast_buffers"]
    if answer.data_parallel:
        yield _data_parallel_row(answer.data_parallel)
    if answer.unequal:
        yield _unequal_row(answer.unequal)


def _stops(answer: DevicesAnswer) -> str:
    """Where more devices stop paying, or how far that was looked for."""
    if answer.stops_paying_at is not None:
        return f"at {answer.stops_paying_at:,}"
    seen = answer.num_seen or max(point["num_devices"] for point in answer.points)
    if seen > 1:
        return f"not seen up to {seen:,}"
    return "no forecast" if all(point["num_devices"] == 1 for point in answer.points) else "unknown"


def _data_parallel_row(found: Mapping[str, Any]) -> Row:
    step, more = quantity(found["step_seconds"], "seconds"), quantity(found["coordinator_bytes"], "bytes")
    what = f"of {found['global_batch']:,} samples on {found['num_devices']}"
    what += (
        f"; the first GPU holds {more} more than the others; unproved: this timing was written without two GPUs at hand"
    )
    return "nn.DataParallel", f"{step} a step", what


def _unequal_row(found: Mapping[str, Any]) -> Row:
    shares = ", ".join(f"{batch:,}" for batch in found["batches"])
    split, even = (quantity(found[name], "seconds") for name in ("split_seconds", "even_seconds"))
    waiting = f"{even} with equal ones, as all wait for device {found['straggler']}"
    return "unequal devices", f"{split} a step", f"batches of {shares}; {waiting}"


def section(answer: DevicesAnswer, others: Sequence[DevicesAnswer] = ()) -> Section:
    """The section of the page."""
    return Section(
        title="What do more devices give?",
        summary=_summary(answer),
        facts=list(rows(answer)),
        figures=[_speedups(answer), *(_parts(answer, name) for name in _scalings(answer)), *_over_devices(answer)],
        tables=[
            points_table(answer, answer.points),
            *measured_tables(answer),
            wire_table(answer),
            *more_tables(answer),
        ],
    )


def _scalings(answer: DevicesAnswer) -> list[str]:
    return list(dict.fromkeys(point["scaling"] for point in answer.points))


def _summary(answer: DevicesAnswer) -> str:
    stops = answer.stops_paying_at
    end = f"; more stop paying at {stops:,}" if stops else ""
    return (
        f"Take {answer.num_devices:,} device{'s' if answer.num_devices > 1 else ''} with {answer.scaling} scaling{end}."
    )


def _speedups(answer: DevicesAnswer) -> Figure:
    series = []
    for scaling in _scalings(answer):
        points = [point for point in answer.points if point["scaling"] == scaling]
        for style, chosen in (("dashes", points), ("points", [each for each in points if not each["predicted"]])):
            series.append(_series(scaling, style, chosen))
    return Figure(
        name="devices-speedup",
        title="Speed-up over devices",
        x=Axis(label="devices", log=True),
        y=Axis(label="speed-up", log=True),
        series=series,
    )


def _series(scaling: str, style: Any, points: Sequence[dict[str, Any]]) -> Series:
    """Speed-ups with what the range of the step leaves of them."""
    ends = [sorted(point["speedup"] * point["step_seconds"] / end for end in point["range"]) for point in points]
    return Series(
        name=f"{scaling}, {'forecast' if style == 'dashes' else 'measured'}",
        x=[point["num_devices"] for point in points],
        y=[point["speedup"] for point in points],
        style=style,
        low=[low for low, _ in ends],
        high=[high for _, high in ends],
        group=scaling,
    )


def _parts(answer: DevicesAnswer, scaling: str) -> Figure:
    points = [point for point in answer.points if point["scaling"] == scaling]
    names = [f"{point['num_devices']:,}" for point in points]
    return Figure(
        name=f"devices-parts-{scaling}",
        title=f"A step in parts, {scaling} scaling",
        x=Axis(label="devices"),
        y=Axis(label="time of a step", unit="seconds"),
        series=[
            Series(name="compute", x=names, y=[point["compute_seconds"] for point in points], style="bars"),
            Series(name="exposed", x=names, y=[point["exposed_seconds"] for point in points], style="bars"),
        ],
        stacked=True,
    )


def _over_devices(answer: DevicesAnswer) -> Iterable[Figure]:
    """Time of an epoch, and how busy devices were, over their number (thesis figure 3.7)."""
    busy = [
        {**point, "busy": statistics.fmean(point["utilisation"])} for point in answer.points if point["utilisation"]
    ]
    whole = [point for point in answer.points if point["epoch_seconds"] is not None]
    found: tuple[tuple[str, str, str, Unit, list[dict[str, Any]]], ...] = (
        ("epoch", "Time of an epoch over devices", "epoch_seconds", "seconds", whole),
        ("utilisation", "Utilisation over devices", "busy", "share", busy),
    )
    for name, title, key, unit, points in found:
        series = [
            Series(
                name=scaling,
                x=[point["num_devices"] for point in points if point["scaling"] == scaling],
                y=[point[key] for point in points if point["scaling"] == scaling],
                style="points" if key == "busy" else "line",
            )
            for scaling in _scalings(answer)
        ]
        if points:
            yield Figure(
                name=f"devices-{name}",
                title=title,
                x=Axis(label="devices", log=True),
                y=Axis(label=title.split(" over")[0].lower(), unit=unit, log=key != "busy"),
                series=series,
            )


def circumstances(answer: Answer) -> tuple[object, ...]:
    """One answer for each batch size, precision and link."""
    assert isinstance(answer, DevicesAnswer)
    return answer.device, answer.batch_size, answer.precision, answer.link["name"], answer.rule


VIEW = View(answer=DevicesAnswer, print=print_devices, section=section, circumstances=circumstances)
