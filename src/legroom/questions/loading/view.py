"""How many workers load the data, as a section: rate and utilisation against workers, and what memory allows."""

from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table as Grid

from legroom.laws.loading import MOST_WORKERS, LoaderLaw
from legroom.questions.loading.answer import LoadingAnswer
from legroom.questions.loading.host_memory_view import batch_by_memory, cached, workers_by_memory
from legroom.reports.figures import Axis, Column, Figure, Mark, Section, Series, Table
from legroom.reports.numbers import epoch_label, epoch_seconds
from legroom.reports.terminal import Row, print_remarks, print_rows, print_title
from legroom.reports.views import View
from legroom.units import format_bytes, format_seconds

WORKERS = Axis(label="workers")


def section(answer: LoadingAnswer, others: Sequence[LoadingAnswer] = ()) -> Section:
    """The section; `others` were asked for other batch sizes or devices."""
    every = sorted([answer, *others], key=lambda one: one.batch_size)
    return Section(
        title="How many workers load the data?",
        summary=_summary(answer),
        facts=list(loading_rows(answer)),
        figures=[_rate(answer), _fed(every), _epoch(every), _shares(answer), *cached(every)],
        tables=[_settings(answer, every), *workers_by_memory(answer), *batch_by_memory([answer, *others])],
    )


def circumstances(answer: LoadingAnswer) -> tuple[object, ...]:
    """What tells this answer from others of the same question."""
    return answer.device, answer.batch_size, answer.num_devices, answer.rule


def _summary(answer: LoadingAnswer) -> str:
    share = answer.samples_per_second / answer.device_samples_per_second
    few = {0: "Loading without workers is", 1: "1 worker is"}
    who = few.get(answer.num_workers, f"{answer.num_workers} workers are")
    best = f"{who} enough" if answer.is_fed else f"{who} best"
    fed = "all that the device can eat" if answer.is_fed else f"{share:.0%} of what the device could eat"
    rate = f"{answer.samples_per_second:,.0f} samples/s"
    return f"{best}: {rate}, {fed}; most of a batch's time is {answer.bound_by}."


def _plain(answer: LoadingAnswer) -> list[dict[str, Any]]:
    """The points that differ in workers and prefetch alone; where memory was pinned and not, the one as chosen."""
    as_chosen_last = sorted(answer.points, key=lambda point: point["pin_memory"] == answer.pin_memory)
    points = {
        (point["num_workers"], point["prefetch_factor"]): point
        for point in as_chosen_last
        if point["blas_threads"] == 1
    }
    return [points[setting] for setting in sorted(points)]


def _best(answer: LoadingAnswer) -> list[dict[str, Any]]:
    """The fastest point of each number of workers."""
    best: dict[int, dict[str, Any]] = {}
    for point in _plain(answer):
        known = best.get(point["num_workers"])
        if known is None or point["samples_per_second"] > known["samples_per_second"]:
            best[point["num_workers"]] = point
    return list(best.values())


def _rate(answer: LoadingAnswer) -> Figure:
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
        y=Axis(label="rate", unit="samples/s"),
        series=[*series, *_law(answer)],
        marks=[
            Mark(axis="y", value=answer.device_samples_per_second, label="what the device eats"),
            Mark(axis="x", value=answer.num_workers, label=f"chosen: {answer.num_workers}"),
        ],
    )


def _law(answer: LoadingAnswer) -> Iterable[Series]:
    counts = list(range(1, max(point["num_workers"] for point in answer.points) + 1))
    if answer.law and len(counts) > 1:  # through one point there is no line to see
        law = LoaderLaw(**answer.law)
        rates: list[float | None] = [law.samples_per_second(count) for count in counts]
        yield Series(name="law of the loader", x=list(counts), y=rates, style="dashes")


def _fed(every: Sequence[LoadingAnswer]) -> Figure:
    return Figure(
        name="loading-utilisation",
        title="Share of the device's own rate against workers",
        x=WORKERS,
        y=Axis(label="share of what the device eats", unit="share"),
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
    rate: float = point["samples_per_second"]
    return rate / one.device_samples_per_second if one.device_samples_per_second else None


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
            Column(label="of the device's rate", unit="share"),
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


def print_loading(console: Console, answer: LoadingAnswer) -> None:
    """The settings, what they reach, where the time goes, and what was raced."""
    devices = f", {answer.num_devices} devices" if answer.num_devices > 1 else ""
    print_title(console, answer, f"{answer.device}, batch {answer.batch_size:,}{devices}")
    print_rows(console, loading_rows(answer))
    console.print()
    table = Grid("workers", "ahead", "samples/s", "spread", "waits", "what", title_justify="left")
    for point in answer.points:
        what = "BLAS threads left alone" if point["blas_threads"] is None else ""
        what += "" if point["pin_memory"] else "not pinned"
        rate, waits = f"{point['samples_per_second']:,.0f}", f"{point['wait_seconds'] / point['median_seconds']:.0%}"
        ahead = f"{point['prefetch_factor']}" if point["num_workers"] else ""
        table.add_row(f"{point['num_workers']}", ahead, rate, f"{point['spread']:.0%}", waits, what)
    console.print(table)
    print_remarks(console, answer)


def loading_rows(answer: LoadingAnswer) -> Iterable[Row]:
    """The answer in rows."""
    yield "workers", f"{answer.num_workers}", answer.recommendations[0].because
    if answer.num_workers:
        pinned = "" if answer.device == "cpu" else ", pinned memory" if answer.pin_memory else ", memory not pinned"
        yield "batches ahead", f"{answer.prefetch_factor} a worker", f"persistent workers{pinned}"
    yield "bound by", answer.bound_by, ", ".join(f"{name} {share:.0%}" for name, share in _by_size(answer))
    parts = answer.batch_seconds
    yield "a batch takes", _seconds(parts["step"]), f"on the device alone{_copy(parts)}"
    if "preparation" in parts:
        transfer = f"; a worker {_seconds(parts['one_worker'])} with handing it over" if "one_worker" in parts else ""
        yield "to prepare it", _seconds(parts["preparation"]), f"without workers{transfer}"
    if answer.read_bytes_per_sample is not None:
        reached = f"a sample, at {format_bytes(answer.storage_bytes_per_second or 0)}/s from cold storage"
        yield "reads", format_bytes(answer.read_bytes_per_sample), reached
    if answer.num_workers:
        held = f"{format_bytes(answer.worker_bytes)} a worker, {format_bytes(answer.shared_bytes)} waiting in /dev/shm"
        yield "memory", format_bytes(answer.num_workers * answer.worker_bytes + answer.shared_bytes), held
    yield _allowed(answer)


def _allowed(answer: LoadingAnswer) -> Row:
    """How many workers memory holds, where it holds fewer than anyone would start."""
    largest = answer.workers_by_memory[-1]
    if largest["max_workers"] >= MOST_WORKERS:
        return (
            "memory allows",
            "all worth trying",
            f"{MOST_WORKERS} workers fit, at batches up to {largest['batch_size']:,}",
        )
    table = ", ".join(f"{row['max_workers']} at {row['batch_size']:,}" for row in answer.workers_by_memory[1:])
    return "memory allows", f"{answer.max_workers_by_memory} workers", f"by batch: {table}"


def _by_size(answer: LoadingAnswer) -> list[tuple[str, float]]:
    return sorted(answer.shares.items(), key=lambda item: -item[1])


def _copy(parts: dict[str, float]) -> str:
    return f", {_seconds(parts['copy'])} more to copy" if parts["copy"] else ""


def _seconds(seconds: float) -> str:
    return f"{seconds * 1000:.2g} ms" if seconds < 0.01 else format_seconds(seconds)


VIEW = View(answer=LoadingAnswer, print=print_loading, section=section, circumstances=circumstances)
