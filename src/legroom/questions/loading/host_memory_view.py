"""What host memory decides about loading: how many workers, which batch, and what files that stay in it are worth."""

from collections.abc import Iterable, Sequence

from legroom.laws.loading import MOST_WORKERS, most_workers_in_memory
from legroom.questions.loading.answer import LoadingAnswer
from legroom.questions.loading.thesis_advice import HOST_BYTES
from legroom.reports.figures import Axis, Column, Figure, Series, Table
from legroom.reports.numbers import epoch_label, epoch_seconds
from legroom.units import format_bytes


def cached(every: Sequence[LoadingAnswer]) -> Iterable[Figure]:
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
                    y=[epoch_seconds(one, one.samples_per_second), epoch_seconds(one, _cold_rate(one))],
                    style="bars",
                )
                for one in seen
            ],
        )


def _cold_rate(one: LoadingAnswer) -> float:
    storage = (one.storage_bytes_per_second or 0.0) / (one.read_bytes_per_sample or 1.0)
    return min(one.samples_per_second, storage)


def workers_by_memory(answer: LoadingAnswer) -> Iterable[Table]:
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


def batch_by_memory(answers: Sequence[LoadingAnswer]) -> Iterable[Table]:
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
            rows=[
                [
                    row["memory_bytes"],
                    row["num_workers"],
                    row["batch_size"],
                    "host memory" if row["batch_size"] < most else "largest batch",
                ]
                for row in rows
            ],
        )
