"""How many workers load the data, shown: the section of the page and the terminal, from the same rows."""

from collections.abc import Iterable, Sequence

from rich.console import Console

from legroom.laws.loading import MOST_WORKERS
from legroom.questions.loading.answer import LoadingAnswer
from legroom.questions.loading.figures import figures_of, tables_of
from legroom.reports.figures import Section
from legroom.reports.terminal import Grid, Row, print_remarks, print_rows, print_title
from legroom.reports.views import View
from legroom.units import format_bytes, format_seconds


def section(answer: LoadingAnswer, others: Sequence[LoadingAnswer] = ()) -> Section:
    """The section; `others` were asked for other batch sizes or devices."""
    return Section(
        title="How many workers load the data?",
        summary=_summary(answer),
        facts=list(loading_rows(answer)),
        figures=figures_of(answer, others),
        tables=tables_of(answer, others),
    )


def circumstances(answer: LoadingAnswer) -> tuple[object, ...]:
    """What tells this answer from others of the same question."""
    return answer.device, answer.batch_size, answer.num_devices, answer.rule


def _summary(answer: LoadingAnswer) -> str:
    share = answer.samples_per_second / answer.device_samples_per_second
    few = {0: "Loading without workers is", 1: "1 worker is"}
    who = few.get(answer.num_workers, f"{answer.num_workers} workers are")
    best = f"{who} enough" if answer.is_fed else f"{who} best"
    fed = "all that the device can take" if answer.is_fed else f"{share:.0%} of what the device could take"
    return f"{best}: {answer.samples_per_second:,.0f} samples/s, {fed}; most of a batch's time is {answer.bound_by}."


def print_loading(console: Console, answer: LoadingAnswer) -> None:
    """The settings, what they reach, where the time goes, and every setting that ran."""
    devices = f", {answer.num_devices} devices" if answer.num_devices > 1 else ""
    print_title(console, answer, f"{answer.device}, batch {answer.batch_size:,}{devices}")
    print_rows(console, loading_rows(answer))
    console.print()
    table = Grid("workers", "ahead", "samples/s", "spread", "waits", "what", title_justify="left")
    for point in answer.points:
        what = "BLAS threads left alone" if point["blas_threads"] is None else ""
        what += "" if point["pin_memory"] else "not pinned"
        reached, waits = f"{point['samples_per_second']:,.0f}", f"{point['wait_seconds'] / point['median_seconds']:.0%}"
        ahead = f"{point['prefetch_factor']}" if point["num_workers"] else ""
        table.add_row(f"{point['num_workers']}", ahead, reached, f"{point['spread']:.0%}", waits, what)
    console.print(table)
    print_remarks(console, answer)


def loading_rows(answer: LoadingAnswer) -> Iterable[Row]:
    """The answer in rows."""
    yield "workers", f"{answer.num_workers}", answer.recommendations[0].because
    if answer.num_workers:
        pinned = "" if answer.device == "cpu" else ", pinned memory" if answer.pin_memory else ", memory not pinned"
        yield "batches ahead", f"{answer.prefetch_factor} a worker", f"persistent workers{pinned}"
    largest_first = sorted(answer.shares.items(), key=lambda item: -item[1])
    yield "bound by", answer.bound_by, ", ".join(f"{name} {share:.0%}" for name, share in largest_first)
    parts = answer.batch_seconds
    copy = f", {_seconds(parts['copy'])} more to copy" if parts["copy"] else ""
    yield "a batch takes", _seconds(parts["step"]), f"on the device alone{copy}"
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


def _seconds(seconds: float) -> str:
    return f"{seconds * 1000:.2g} ms" if seconds < 0.01 else format_seconds(seconds)


VIEW = View(answer=LoadingAnswer, print=print_loading, section=section, circumstances=circumstances)
