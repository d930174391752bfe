"""Tables of `devices`: what the page shows, and a terminal in part."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from legroom.questions.devices.answer import DevicesAnswer, TableAnswer
from legroom.questions.devices.notes import span_words
from legroom.reports.figures import Column, Table, Unit

Columns = Mapping[str, tuple[str, Unit]]
"""Keys of rows, with the label and the unit of their columns."""
POINT_COLUMNS: tuple[tuple[str, str, Unit], ...] = (
    ("devices", "num_devices", ""),
    ("scaling", "scaling", ""),
    ("batch each", "batch_size", ""),
    ("step", "step_seconds", "seconds"),
    ("from, to", "range", ""),
    ("exposed", "exposed_seconds", "seconds"),
    ("speed-up", "speedup", ""),
    ("efficiency", "efficiency", "share"),
    ("epoch", "epoch_seconds", "seconds"),
)
MORE: Mapping[str, tuple[str, Columns]] = {
    "batches": (
        "The global batch in weak scaling",
        {
            "num_devices": ("devices", ""),
            "global_batch": ("global batch", ""),
            "learning_rate": ("rate by LEGW", ""),
            "warmup_epochs": ("warm-up epochs", ""),
            "throughput_speedup": ("samples/s, times", ""),
            "target_speedup": ("target sooner, times", ""),
        },
    ),
    "traffic": (
        "Traffic of an epoch, weak scaling",
        {
            "num_devices": ("devices", ""),
            "num_messages": ("updates of an epoch", ""),
            "bytes_moved": ("data moved", "bytes"),
            "operations_per_byte": ("operations a byte", ""),
        },
    ),
    "splits": (
        "The same global batch with the model cut, forecast",
        {
            "name": ("split", ""),
            "num_devices": ("devices", ""),
            "step_seconds": ("step", "seconds"),
            "data_parallel_seconds": ("data-parallel step", "seconds"),
            "memory_bytes": ("memory of each", "bytes"),
            "fits": ("fits", ""),
        },
    ),
}
"""Rows of an answer that only the page has room for, with their titles."""


MEASURED: Columns = {
    "num_devices": ("devices", ""),
    "scaling": ("scaling", ""),
    "batch_size": ("batch each", ""),
    "copies_seconds": ("copies without sync", "seconds"),
    "step_seconds": ("step", "seconds"),
    "exposed_seconds": ("exposed", "seconds"),
    "buckets_seconds": ("buckets alone", "seconds"),
    "communication_seconds": ("with copies and buffers", "seconds"),
    "overlap": ("overlap", "share"),
    "difference_seconds": ("T_N - T_1/N, a step", "seconds"),
    "busy": ("utilisation", "share"),
}
MESSAGES: Columns = {
    "num_devices": ("devices", ""),
    "num_bytes": ("all-reduce of", "bytes"),
    "seconds": ("takes", "seconds"),
    "gb_per_second": ("bus, GB/s (1e9)", ""),
    "share": ("of the best", "share"),
}


def measured_tables(answer: DevicesAnswer) -> list[Table]:
    """What was seen of devices that ran together: compute and communication, and the link by sizes."""
    steps = [
        {**point, "busy": statistics.fmean(point["utilisation"]) if point["utilisation"] else None}
        for point in answer.points
        if not point["predicted"] and point["num_devices"] > 1
    ]
    best = max((each["bus_bytes_per_second"] for each in answer.messages), default=1.0)
    messages = [
        {**each, "gb_per_second": each["bus_bytes_per_second"] / 1e9, "share": each["bus_bytes_per_second"] / best}
        for each in answer.messages
    ]
    found = [
        _plain("devices-communication", "Compute and communication, measured", steps, MEASURED),
        _plain("devices-messages", "All-reduces alone, by size", messages, MESSAGES),
    ]
    return [table for table in found if table.rows]


def more_tables(answer: DevicesAnswer) -> list[Table]:
    """Those that this answer has rows for."""
    found = {name: getattr(answer, name) for name in MORE}
    return [_plain(f"devices-{name}", MORE[name][0], rows, MORE[name][1]) for name, rows in found.items() if rows]


def points_table(answer: DevicesAnswer, points: Sequence[dict[str, Any]]) -> Table:
    """Some of the points."""
    columns = [*POINT_COLUMNS, *([("cost of an epoch", "epoch_cost", "")] if _has_cost(answer) else [])]
    return Table(
        name="devices-points",
        title="Devices, measured and forecast",
        columns=[*(Column(label=label, unit=unit) for label, _, unit in columns), Column(label="how")],  # type: ignore[arg-type]
        rows=[
            [*(_shown(point, name) for _, name, _ in columns), "forecast" if point["predicted"] else "measured"]
            for point in points
        ],
        chosen=[
            place
            for place, point in enumerate(points)
            if (point["num_devices"], point["scaling"]) == (answer.num_devices, answer.scaling)
        ],
    )


def _shown(point: Mapping[str, Any], name: str) -> Any:
    if name == "range":
        return span_words(point["range"]).replace(" to ", "-")
    return _money(point[name]) if name == "epoch_cost" else _rounded(point.get(name))


def _money(value: float | None) -> str:
    """To the hundredth: nobody pays less.

    >>> _money(1.726e-07), _money(12.3456), _money(None)
    ('< 0.01', '12.35', '')
    """
    if value is None:
        return ""
    return f"{value:,.2f}" if value >= 0.005 or value == 0 else "< 0.01"


def _rounded(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value == int(value) else value


def _has_cost(answer: DevicesAnswer) -> bool:
    return any(point["epoch_cost"] is not None for point in answer.points)


def wire_table(answer: DevicesAnswer) -> Table:
    """Bytes and messages of a step."""
    return Table(
        name="devices-wire",
        title="What crosses the wire in a step",
        columns=[
            Column(label="what"),
            Column(label="bytes", unit="bytes"),
            Column(label="messages"),
            Column(
                label=f"sent by each of {answer.wire[0].get('num_devices', 'N') if answer.wire else 'N'}", unit="bytes"
            ),
            Column(label="when", sentences=True),
        ],
        rows=[
            [row[name] for name in ("what", "num_bytes", "num_messages", "link_bytes", "when")] for row in answer.wire
        ],
    )


def _plain(name: str, title: str, rows: Sequence[dict[str, Any]], columns: Columns) -> Table:
    """A table of some keys of the rows."""
    return Table(
        name=name,
        title=title,
        columns=[Column(label=label, unit=unit) for label, unit in columns.values()],
        rows=[[_rounded(row[key]) for key in columns] for row in rows],
    )


def published_tables(answer: TableAnswer) -> list[Table]:
    """Published times, as tables."""
    first: Columns = {"num_devices": ("devices", ""), "batch_size": ("batch each", "")}
    return [
        _plain(
            "table-points",
            "Strong scaling" if answer.points and answer.points[0]["scaling"] == "strong" else "Weak scaling",
            answer.points,
            {**first, "step_seconds": ("step", "seconds"), "speedup": ("speed-up", ""),
             "efficiency": ("efficiency", "share"), "exposed_seconds": ("exposed a step", "seconds"),
             "epoch_difference_seconds": ("T_N - T_1/N an epoch", "seconds")},
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
