"""How large a batch fits, in a terminal."""

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.table import Table

from legroom.advisors.memory import MemoryAnswer
from legroom.reports.console.layout import Row, print_remarks, print_rows, print_title
from legroom.units import format_bytes, format_seconds


def print_memory(console: Console, answer: MemoryAnswer) -> None:
    """The batch that fits, what it takes, and what was tried."""
    place = answer.card or answer.device
    print_title(
        console, answer, f"{place}, {format_bytes(answer.budget_bytes)}{', estimated' if answer.estimate else ''}"
    )
    print_rows(console, memory_rows(answer))
    if answer.probes:
        console.print()
        _print_probes(console, answer)
    print_remarks(console, answer)


def _print_probes(console: Console, answer: MemoryAnswer) -> None:
    table = Table("batch", "peak", "spread", "step", "what", title="what was tried", title_justify="left")
    for probe in answer.probes:
        table.add_row(*_probe_cells(probe, answer))
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


def within(probe: dict[str, Any], answer: MemoryAnswer) -> bool:
    """Whether what was tried stays within the budget; answers of before did not say."""
    return bool(probe.get("fits", probe["outcome"] == "measured" and probe["peak_bytes"] <= answer.budget_bytes))


def _probe_cells(probe: dict[str, Any], answer: MemoryAnswer) -> list[str]:
    passes = f", {probe['accumulation_steps']} passes" if probe["accumulation_steps"] > 1 else ""
    samples = " of typical samples" if probe["samples"] == "typical" else ""
    what = f"{'proof' if probe['proof'] else 'probe'}{passes}{samples}"
    if probe["proof"] and probe["outcome"] == "measured" and not within(probe, answer):
        what = f"{what}: too large"
    if probe["outcome"] == "measured":
        peak, spread = format_bytes(probe["peak_bytes"]), f"{probe['spread']:.1%}"
        return [f"{probe['batch_size']:,}", peak, spread, format_seconds(probe["step_seconds"]), what]
    return [f"{probe['batch_size']:,}", "", "", "", f"{what}: {probe['outcome'].replace('_', ' ')}"]
