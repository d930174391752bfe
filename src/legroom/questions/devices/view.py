"""What more devices give, in a terminal and on the page."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from rich.console import Console
from rich.table import Table as Grid

from legroom.questions.base import Answer
from legroom.questions.devices.answer import DevicesAnswer, TableAnswer
from legroom.reports.figures import Axis, Column, Figure, Section, Series, Table, Unit
from legroom.reports.numbers import quantity
from legroom.reports.terminal import Row, print_remarks, print_rows, print_title
from legroom.reports.views import View

SHOWN = (1, 2, 4, 8, 16, 64, 256, 1024, 4096)
"""Numbers of devices that a terminal shows; the page and --json have all."""
POINT_COLUMNS: tuple[tuple[str, str, Unit], ...] = (
    ("devices", "num_devices", ""),
    ("scaling", "scaling", ""),
    ("batch each", "batch_size", ""),
    ("step", "step_seconds", "seconds"),
    ("exposed", "exposed_seconds", "seconds"),
    ("speed-up", "speedup", ""),
    ("efficiency", "efficiency", "share"),
    ("epoch", "epoch_seconds", "seconds"),
)


def print_devices(console: Console, answer: DevicesAnswer | TableAnswer) -> None:
    """The recommendation, the points, the wire, and what they rest on."""
    if isinstance(answer, TableAnswer):
        print_title(console, answer, "published times")
        for table in table_tables(answer):
            _print_table(console, table)
        print_remarks(console, answer)
        return
    print_title(console, answer, f"{answer.device}, batch {answer.batch_size:,}")
    print_rows(console, rows(answer))
    measured = {point["num_devices"] for point in answer.points if not point["predicted"]}
    shown = [point for point in answer.points if point["num_devices"] in {*SHOWN, *measured}]
    for table in (_points(answer, shown), _wire(answer)):
        _print_table(console, _narrow(table))
    print_remarks(console, answer)


def _narrow(table: Table) -> Table:
    """The table without what a terminal has no room for."""
    kept = [place for place, column in enumerate(table.columns) if column.label not in ("batch each", "when", "epoch")]
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
    stops = answer.stops_paying_at
    yield (
        "stops paying",
        "beyond 4,096" if stops is None else f"at {stops:,}",
        "twice the devices, under 1.3 times faster",
    )
    if "bucket_cap_mb" in because:
        yield (
            "bucket_cap_mb",
            "torch's own" if answer.bucket_cap_mb is None else f"{answer.bucket_cap_mb:g}",
            because["bucket_cap_mb"],
        )
    yield "broadcast_buffers", str(answer.broadcast_buffers), because["broadcast_buffers"]
    if answer.unequal:
        uneven = answer.unequal
        shares = ", ".join(f"{batch:.0f}" for batch in uneven["batches"])
        yield (
            "unequal devices",
            f"{quantity(uneven['split_seconds'], 'seconds')} a step",
            f"batches of {shares}; {quantity(uneven['even_seconds'], 'seconds')} with equal ones, as all wait for "
            "device "
            f"{uneven['straggler']}",
        )


def _points(answer: DevicesAnswer, points: Sequence[dict[str, Any]]) -> Table:
    columns = [*POINT_COLUMNS, *([("cost of an epoch", "epoch_cost", "")] if _has_cost(answer) else [])]
    return Table(
        name="devices-points",
        title="Devices, measured and forecast",
        columns=[*(Column(label=label, unit=unit) for label, _, unit in columns), Column(label="how")],  # type: ignore[arg-type]
        rows=[
            [*(_rounded(point.get(name)) for _, name, _ in columns), "forecast" if point["predicted"] else "measured"]
            for point in points
        ],
        chosen=[
            place
            for place, point in enumerate(points)
            if (point["num_devices"], point["scaling"]) == (answer.num_devices, answer.scaling)
        ],
    )


def _rounded(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value == int(value) else value


def _has_cost(answer: DevicesAnswer) -> bool:
    return any(point["epoch_cost"] is not None for point in answer.points)


def _wire(answer: DevicesAnswer) -> Table:
    return Table(
        name="devices-wire",
        title="What crosses the wire in a step",
        columns=[
            Column(label="what"),
            Column(label="bytes", unit="bytes"),
            Column(label="messages"),
            Column(label="sent by each device", unit="bytes"),
            Column(label="when", sentences=True),
        ],
        rows=[
            [row[name] for name in ("what", "num_bytes", "num_messages", "link_bytes", "when")] for row in answer.wire
        ],
    )


def _plain(name: str, title: str, rows: Sequence[dict[str, Any]], columns: dict[str, tuple[str, Unit]]) -> Table:
    """A table of some keys of the rows."""
    return Table(
        name=name,
        title=title,
        columns=[Column(label=label, unit=unit) for label, unit in columns.values()],
        rows=[[_rounded(row[key]) for key in columns] for row in rows],
    )


def table_tables(answer: TableAnswer) -> list[Table]:
    """Published times, as tables."""
    first: dict[str, tuple[str, Unit]] = {"num_devices": ("devices", ""), "batch_size": ("batch each", "")}
    return [
        _plain(
            "table-points",
            "Weak scaling",
            answer.points,
            {**first, "step_seconds": ("step", "seconds"), "speedup": ("speed-up", ""),
             "efficiency": ("efficiency", "share"), "exposed_seconds": ("exposed a step", "seconds"),
             "difference_seconds": ("T_N - T_1/N an epoch", "seconds")},
        ),
        _plain(
            "table-forecasts",
            "Forecast from one and two devices, seconds of an epoch",
            answer.forecasts,
            {**first, "bandwidth_only_seconds": ("bandwidth alone", ""), "latency_only_seconds": ("latency alone", ""),
             "seconds": ("published", ""), "inside": ("between", "")},
        ),
        _plain(
            "table-communication",
            "Communication, as published and recomputed",
            answer.communication,
            {**first, "published_seconds": ("published s", ""), "subtracts": ("subtracts T_1 of", ""),
             "published_bandwidth": ("published", ""), "gb_per_second": ("GB/s", ""), "gib_per_second": ("GiB/s", "")},
        ),
    ]  # fmt: skip


def section(answer: DevicesAnswer, others: Sequence[DevicesAnswer] = ()) -> Section:
    """The section of the page."""
    tables = [_points(answer, answer.points), _wire(answer)]
    if answer.batches:
        labels: dict[str, tuple[str, Unit]] = {
            "num_devices": ("devices", ""),
            "global_batch": ("global batch", ""),
            "learning_rate": ("rate by LEGW", ""),
            "warmup_epochs": ("warm-up epochs", ""),
            "throughput_speedup": ("samples/s, times", ""),
            "target_speedup": ("target sooner, times", ""),
        }
        tables.append(_plain("devices-batches", "The global batch in weak scaling", answer.batches, labels))
    if answer.traffic:
        labels = {
            "num_devices": ("devices", ""),
            "num_messages": ("updates of an epoch", ""),
            "bytes_moved": ("data moved", "bytes"),
            "operations_per_byte": ("operations a byte", ""),
        }
        tables.append(_plain("devices-traffic", "Traffic of an epoch, weak scaling", answer.traffic, labels))
    if answer.splits:
        labels = {
            "name": ("split", ""),
            "num_devices": ("devices", ""),
            "step_seconds": ("step", "seconds"),
            "data_parallel_seconds": ("data-parallel step", "seconds"),
            "memory_bytes": ("memory of each", "bytes"),
            "fits": ("fits", ""),
        }
        tables.append(
            _plain("devices-splits", "The same global batch with the model cut, forecast", answer.splits, labels)
        )
    return Section(
        title="What do more devices give?",
        summary=_summary(answer),
        facts=list(rows(answer)),
        figures=[_speedups(answer), *(_parts(answer, name) for name in _scalings(answer))],
        tables=tables,
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


def circumstances(answer: Answer) -> tuple[object, ...]:
    """One answer for each batch size, precision and link."""
    assert isinstance(answer, DevicesAnswer)
    return answer.device, answer.batch_size, answer.precision, answer.link["name"], answer.rule


VIEW = View(answer=DevicesAnswer, print=print_devices, section=section, circumstances=circumstances)
