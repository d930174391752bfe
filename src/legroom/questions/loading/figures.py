"""Figures and tables of loading: throughput and utilisation against workers, and what host memory decides."""

from collections.abc import Iterable, Sequence
from typing import Any

from legroom.laws.loading import MOST_WORKERS, LoaderLaw, most_workers_in_memory
from legroom.questions.loading.answer import LoadingAnswer
from legroom.questions.loading.thesis import HOST_BYTES
from legroom.reports.figures import Axis, Column, Figure, Mark, Series, Table
from legroom.reports.numbers import epoch_label, epoch_seconds
from legroom.units import format_bytes

WORKERS = Axis(label="workers")


def figures_of(answer: LoadingAnswer, others: Sequence[LoadingAnswer]) -> list[Figure]:
    """Those of the answer, and those that compare it with others, asked for other batches or devices."""
    every = _by_batch(answer, others)
    return [_throughput(answer), _fed(every), _epoch(every), _shares(answer), *_cached(every)]


def tables_of(answer: LoadingAnswer, others: Sequence[LoadingAnswer]) -> list[Table]:
    """Every setting, and what host memory allows."""
    tables = [_settings(answer, _by_batch(answer, others))]
    return [*tables, *_workers_by_memory(answer), *_batch_by_memory([answer, *others])]


def _by_batch(answer: LoadingAnswer, others: Sequence[LoadingAnswer]) -> list[LoadingAnswer]:
    return sorted([answer, *others], key=lambda one: one.batch_size)


def _plain(answer: LoadingAnswer) -> list[dict[str, Any]]:
    """The points that differ in workers and prefetch alone; where memory was pinned and not, the one as chosen."""
    as_chosen_last = sorted(answer.points, key=lambda point: point["pin_memory"] == answer.pin_memory)
    plain = [point for point in as_chosen_last if point["blas_threads"] == 1]
    points = {(point["num_workers"], point["prefetch_factor"]): point for point in plain}
    return [points[setting] for setting in sorted(points)]


def _best(answer: LoadingAnswer) -> list[dict[str, Any]]:
    """The fastest point of each number of workers."""
    rising = sorted(_plain(answer), key=lambda point: (point["num_workers"], point["samples_per_second"]))
    return list({point["num_workers"]: point for point in rising}.values())


def _throughput(answer: LoadingAnswer) -> Figure:
    series = []
    for ahead in sorted({point["prefetch_factor"] for point in _plain(answer)}):
        seen = [point for point in _plain(answer) if point["prefetch_factor"] == ahead]
        series.append(
            Series(
                name=f"with the step, {ahead} batches ahead",
                x=[point["num_workers"] for point in seen],
                y=[point["samples_per_second"] for point in seen],
                spread=[point["spread"] for point in seen],
            )
        )
    return Figure(
        name="loading-rate",
        title="Samples per second against workers",
        x=WORKERS,
        y=Axis(label="throughput", unit="samples/s"),
        series=[*series, *_law(answer)],
        marks=[
            Mark(axis="y", value=answer.device_samples_per_second, label="what the device takes"),
            Mark(axis="x", value=answer.num_workers, label=f"chosen: {answer.num_workers}"),
        ],
    )


def _law(answer: LoadingAnswer) -> Iterable[Series]:
    counts = list(range(1, max(point["num_workers"] for point in answer.points) + 1))
    if answer.law and len(counts) > 1:  # through one point there is no line to see
        law = LoaderLaw(**answer.law)
        along: list[float | None] = [law.samples_per_second(count) for count in counts]
        yield Series(name="law of the loader", x=list(counts), y=along, style="dashes")


def _fed(every: Sequence[LoadingAnswer]) -> Figure:
    return Figure(
        name="loading-utilisation",
        title="Share of the device's own throughput against workers",
        x=WORKERS,
        y=Axis(label="share of what the device takes", unit="share"),
        series=[_line(one, [_share(one, point) for point in _best(one)]) for one in every],
    )


def _epoch(every: Sequence[LoadingAnswer]) -> Figure:
    label = epoch_label(every[0])
    return Figure(
        name="loading-epoch",
        title=f"{label.capitalize()} against workers",
        x=WORKERS,
        y=Axis(label=label, unit="seconds"),
        series=[_line(one, [epoch_seconds(one, point["samples_per_second"]) for point in _best(one)]) for one in every],
    )


def _line(one: LoadingAnswer, values: list[float | None]) -> Series:
    name = f"batch {one.batch_size:,}" + (", by the thesis' rule" if one.rule == "thesis" else "")
    return Series(name=name, x=[point["num_workers"] for point in _best(one)], y=values)


def _share(one: LoadingAnswer, point: dict[str, Any]) -> float | None:
    reached: float = point["samples_per_second"]
    return reached / one.device_samples_per_second if one.device_samples_per_second else None


def _shares(answer: LoadingAnswer) -> Figure:
    return Figure(
        name="loading-shares",
        title="Where a batch's time goes when files are read for the first time",
        x=Axis(label="part"),
        y=Axis(label="share", unit="share"),
        series=[Series(name="share", x=list(answer.shares), y=list(answer.shares.values()), style="bars")],
    )


def _settings(answer: LoadingAnswer, every: Sequence[LoadingAnswer]) -> Table:
    """Workers and batch size with time and utilisation (the thesis' tables 5.3 to 5.5)."""
    pairs = [(one, point) for one in every for point in _plain(one)]
    return Table(
        name="loading-settings",
        title="Every setting run with the step",
        columns=[
            Column(label="workers"),
            Column(label="batches ahead"),
            Column(label="batch size"),
            Column(label=epoch_label(answer), unit="seconds"),
            Column(label="of the device's throughput", unit="share"),
        ],
        rows=[
            [
                point["num_workers"],
                point["prefetch_factor"] if point["num_workers"] else None,
                one.batch_size,
                epoch_seconds(one, point["samples_per_second"]),
                _share(one, point),
            ]
            for one, point in pairs
        ],
        chosen=[place for place, (one, point) in enumerate(pairs) if _is_chosen(one, point)],
    )


def _is_chosen(answer: LoadingAnswer, point: dict[str, Any]) -> bool:
    """Whether it is what that answer recommends for its own batch."""
    same = point["num_workers"] == answer.num_workers
    return same and (answer.num_workers == 0 or point["prefetch_factor"] == answer.prefetch_factor)


def _cached(every: Sequence[LoadingAnswer]) -> Iterable[Figure]:
    """What host memory that holds all files is worth, by batch (the thesis' figure 3.8 compares 20 with 128 GB)."""
    seen = [one for one in every if one.read_bytes_per_sample and one.storage_bytes_per_second]
    if seen:
        yield Figure(
            name="loading-cache",
            title=f"{epoch_label(seen[0]).capitalize()}, by where the files lie",
            x=Axis(label="where"),
            y=Axis(label=epoch_label(seen[0]), unit="seconds"),
            series=[
                Series(
                    name=f"batch {one.batch_size:,}",
                    x=["files in memory", "files from storage"],
                    y=[epoch_seconds(one, one.samples_per_second), epoch_seconds(one, _cold_throughput(one))],
                    style="bars",
                )
                for one in seen
            ],
        )


def _cold_throughput(one: LoadingAnswer) -> float:
    storage = (one.storage_bytes_per_second or 0.0) / (one.read_bytes_per_sample or 1.0)
    return min(one.samples_per_second, storage)


def _workers_by_memory(answer: LoadingAnswer) -> Iterable[Table]:
    """The most workers by batch and host memory (the thesis' table 3.1), where any host holds fewer than are tried."""
    rows = [[row["batch_size"], row["max_workers"]] for row in answer.workers_by_memory]
    columns = [Column(label="batch size"), Column(label="most workers here")]
    if answer.batch_bytes:
        columns += [Column(label=format_bytes(size)) for size in HOST_BYTES]
        rows = [[*row, *_most_workers(answer, row[0] / answer.batch_size)] for row in rows]
    if any(num < MOST_WORKERS for row in rows for num in row[1:]):
        title = f"The most workers that host memory holds, up to {MOST_WORKERS}"
        yield Table(name="loading-memory", title=title, columns=columns, rows=rows)


def _most_workers(answer: LoadingAnswer, factor: float) -> list[int]:
    """For a batch so many times as large as the one asked for."""
    return [
        most_workers_in_memory(
            size,
            None,
            worker_bytes=answer.worker_bytes,
            batch_bytes=factor * answer.batch_bytes,
            prefetch_factor=answer.prefetch_factor,
            num_devices=answer.num_devices,
        )
        for size in HOST_BYTES
    ]


def _batch_by_memory(answers: Sequence[LoadingAnswer]) -> Iterable[Table]:
    """Workers and batch by host memory, by the thesis' rule (its table 5.6); from the first answer that has them."""
    rows = next((one.batch_by_memory for one in answers if one.batch_by_memory), [])
    most = max((row["batch_size"] for row in rows), default=0)
    if rows:
        yield Table(
            name="loading-batch",
            title="Workers and batch by the thesis' rule, if all of a host's memory were free",
            columns=[
                Column(label="host memory", unit="bytes"),
                Column(label="workers"),
                Column(label="batch size"),
                Column(label="held by"),
            ],
            rows=[[*row.values(), "host memory" if row["batch_size"] < most else "largest batch"] for row in rows],
        )
