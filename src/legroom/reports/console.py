"""Answers as a person reads them in a terminal."""

from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from legroom.advisors.combine import PlanAnswer
from legroom.advisors.foresee import Foreseen
from legroom.advisors.machine import MachineAnswer
from legroom.advisors.memory import MemoryAnswer
from legroom.advisors.train import TrainAnswer
from legroom.answers import Answer
from legroom.units import format_bytes, format_seconds
from legroom.workloads import Workload

Row = tuple[str, str, str]


def print_memory(console: Console, answer: MemoryAnswer) -> None:
    """The batch that fits, what it takes, and what was tried."""
    place = answer.card or answer.device
    _title(console, answer, f"{place}, {format_bytes(answer.budget_bytes)}{', estimated' if answer.estimate else ''}")
    _rows(console, memory_rows(answer))
    if answer.probes:
        console.print()
        _print_probes(console, answer)
    _remarks(console, answer)


def _print_probes(console: Console, answer: MemoryAnswer) -> None:
    table = Table("batch", "peak", "spread", "step", "what", title="what was tried", title_justify="left")
    for probe in answer.probes:
        table.add_row(*_probe_cells(probe))
    console.print(table)


def memory_rows(answer: MemoryAnswer) -> Iterable[Row]:
    """What was found, a fact a row."""
    because = answer.recommendations[0].because
    yield "largest training batch", _largest(answer), because
    if answer.eval_batch_size is not None:
        yield "largest evaluation batch", f"{answer.eval_batch_size:,}", ""
    if answer.typical_batch_size is not None:
        yield "with typical samples", f"{answer.typical_batch_size:,}", "by the law of typical batches, not proved"
    if answer.data_limit is not None:
        yield "samples in the data set", f"{answer.data_limit:,}", ""
    if answer.micro_batch_size is not None:
        steps = answer.accumulation_steps
        passes = "one pass makes" if steps == 1 else f"{steps} passes make"
        yield "micro-batch", f"{answer.micro_batch_size:,}", f"{passes} the batch asked for"
    if answer.peak_parts:
        parts = ", ".join(f"{name} {format_bytes(size)}" for name, size in answer.peak_parts.items())
        yield "fullest moment", answer.peak_phase, parts
    yield "a sample takes", format_bytes(answer.bytes_per_sample), f"above {format_bytes(answer.fixed_bytes)} fixed"
    if answer.num_ooms:
        yield "ran out of memory", f"{answer.num_ooms}", "times on the way"


def _largest(answer: MemoryAnswer) -> str:
    low, high = answer.range
    return f"about {answer.max_batch_size:,} ({low:,} to {high:,})" if answer.estimate else f"{answer.max_batch_size:,}"


def _probe_cells(probe: dict[str, Any]) -> list[str]:
    passes = f", {probe['accumulation_steps']} passes" if probe["accumulation_steps"] > 1 else ""
    samples = " of typical samples" if probe["samples"] == "typical" else ""
    what = f"{'proof' if probe['proof'] else 'probe'}{passes}{samples}"
    if probe["outcome"] == "measured":
        peak, spread = format_bytes(probe["peak_bytes"]), f"{probe['spread']:.1%}"
        return [f"{probe['batch_size']:,}", peak, spread, format_seconds(probe["step_seconds"]), what]
    return [f"{probe['batch_size']:,}", "", "", "", f"{what}: {probe['outcome'].replace('_', ' ')}"]


def print_plan(console: Console, answer: PlanAnswer) -> None:
    """Every recommendation with its reason."""
    _title(console, answer, f"goal: {answer.goal}")
    table = Table("setting", "value", "range", "because")
    for item in answer.recommendations:
        span = "" if item.range is None else f"{_number(item.range[0])} to {_number(item.range[1])}"
        table.add_row(item.name, _number(item.value), span, escape(item.because))
    console.print(table)
    _remarks(console, answer)


def print_foreseen(console: Console, answer: Foreseen) -> None:
    """The probes a command would run, and their time."""
    _title(console, answer, "nothing was run")
    table = Table("probe", "how many", "time")
    for probe in answer.probes:
        table.add_row(probe.what, _span(*map(str, probe.num_probes)), _span(*map(format_seconds, probe.seconds)))
    console.print(table)
    total = [sum(probe.seconds[end] for probe in answer.probes) for end in (0, 1)]
    console.print(f"In all {_span(*map(format_seconds, total))}.")
    for note in answer.notes:
        console.print(f"  - {escape(note)}")


def _span(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"


STOPPED = {
    "finished": "the run is complete",
    "target": "target reached",
    "patience": "no gain for as long as patience allows",
    "budget": "its seconds are spent",
    "interrupted": "interrupted; --resume goes on",
}


def print_train(console: Console, answer: TrainAnswer) -> None:
    """What the run came to, and how it got there."""
    _title(console, answer, answer.device)
    _rows(console, train_rows(answer))
    table = Table("update", "epoch", "seconds", "training loss", "validation loss", "score", title_justify="left")
    for found in _thinned(answer.evaluations):
        values = [found["train_loss"], found["loss"], found["score"]]
        cells = ["" if value is None else f"{value:.5g}" for value in values]
        table.add_row(f"{found['step']:,}", f"{found['epoch']:.4g}", f"{found['seconds']:.1f}", *cells)
    console.print()
    console.print(table)
    _remarks(console, answer)


def train_rows(answer: TrainAnswer) -> Iterable[Row]:
    """What the run came to, a fact a row."""
    yield "ended", STOPPED[answer.stopped_because], f"{answer.num_steps:,} updates, {answer.num_epochs:.4g} epochs"
    if answer.final_score is not None:
        yield "score", f"{answer.final_score:.5g}", f"best {answer.best_score:.5g}"
    if answer.final_loss is not None:
        yield "loss", f"{answer.final_loss:.5g}", ""
    if answer.seconds_to_target is not None:
        yield "time to target", format_seconds(answer.seconds_to_target), "start-up left out"
    yield "speed", f"{answer.samples_per_second:,.0f} samples/s", f"{answer.data_wait_share:.0%} waiting for batches"
    if answer.checkpoint is not None:
        yield "checkpoint", answer.checkpoint, ""


def _thinned(items: Sequence[Any], most: int = 20) -> Sequence[Any]:
    """Every so-manyth item, the last always among them."""
    stride = -(-len(items) // most) or 1
    return [item for place, item in enumerate(items) if (len(items) - 1 - place) % stride == 0]


def print_machine(console: Console, answer: MachineAnswer) -> None:
    """What the machine has and how fast it is."""
    console.print(f"[bold]{escape(answer.machine)}[/bold]")
    host = answer.host
    shm = "none" if host["shm_bytes"] is None else format_bytes(host["shm_bytes"])
    rows: list[Row] = [
        ("cores", f"{host['num_cores']}", host["cores_because"]),
        ("memory", format_bytes(host["memory_bytes"]), host["memory_because"]),
        ("memory free", format_bytes(host["available_bytes"]), ""),
        ("/dev/shm free", shm, ""),
    ]
    for gpu in answer.gpus:
        free = f"{format_bytes(gpu['free_bytes'])} of {format_bytes(gpu['total_bytes'])} free"
        rows.append((f"GPU {gpu['index']}", gpu["name"], f"{free}, driver {gpu['driver']} {gpu['note']}"))
    for device, values in answer.speeds.items():
        rows += [(f"{device} {name}", text, remark) for name, text, remark in _speed_rows(values)]
    _rows(console, rows)
    _remarks(console, answer)


def _speed_rows(values: dict[str, Any]) -> Iterable[Row]:
    for name, value in values.items():
        if isinstance(value, dict) and "median" in value:
            text = f"{value['median'] / 1e9:,.1f} G{'FLOP' if 'flops' in name else 'B'}/s"
            what = name.removesuffix("_flops_per_second").removesuffix("_bytes_per_second").replace("_", " ")
            yield what, text, f"{value['num_repeats']} repeats, spread {value['spread']:.1%}"


def print_jobs(console: Console, workloads: Sequence[Workload]) -> None:
    """The built-in jobs."""
    table = Table("job", "what it is", "options (--with name=value)")
    for workload in workloads:
        options = ", ".join(f"{name}={default}" for name, default in workload.options.items())
        table.add_row(workload.name, escape(workload.summary), escape(options))
    console.print(table)


def _title(console: Console, answer: Answer, circumstances: str) -> None:
    console.print(f"[bold]{escape(answer.job)}[/bold] on {escape(answer.machine)} ({escape(circumstances)})")


def _rows(console: Console, rows: Iterable[Row]) -> None:
    table = Table.grid(padding=(0, 2))
    for name, value, remark in rows:
        table.add_row(escape(name), f"[bold]{escape(value)}[/bold]", f"[dim]{escape(remark)}[/dim]")
    console.print(table)


def _remarks(console: Console, answer: Answer) -> None:
    for title, lines in (("Notes", answer.notes), ("Not measured", answer.not_measured)):
        if lines:
            console.print(f"\n[bold]{title}[/bold]")
            for line in lines:
                console.print(f"  - {escape(line)}")
    took = (
        f"Measuring took {format_seconds(answer.seconds)}." if answer.seconds else "Nothing had to be measured again."
    )
    console.print(f"\n{took}")


def _number(value: Any) -> str:
    if value is None:
        return "none"
    return f"{value:,}" if isinstance(value, int) else f"{value}"
