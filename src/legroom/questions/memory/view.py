"""How large a batch fits, as a section: peaks against the batch, and the same job within other budgets."""

from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console

from legroom.questions.memory.answer import MemoryAnswer
from legroom.reports.figures import Axis, Column, Figure, Mark, Section, Series, Table
from legroom.reports.terminal import Grid, Row, print_remarks, print_rows, print_title
from legroom.reports.views import View
from legroom.units import exact_bytes, format_bytes, format_seconds

IN_SIGHT = 2
"""Times the largest batch: drawn further, the law would press all that was measured into a corner."""
PHASES = ("data", "forward", "backward", "update", "evaluation", "reserved")


def section(answer: MemoryAnswer, others: Sequence[MemoryAnswer] = ()) -> Section:
    """The section; `others` were asked for other budgets, cards or precisions."""
    figures = [_peaks(answer)]
    if answer.peak_parts:
        figures.append(_parts(answer))
    return Section(
        title="How large a batch fits?",
        summary=_summary(answer),
        facts=list(memory_rows(answer)),
        figures=figures,
        tables=[_budgets(answer, others)] if others else [],
    )


def circumstances(answer: MemoryAnswer) -> tuple[object, ...]:
    """What tells this answer from others of the same question."""
    place = answer.card or answer.device
    budget = exact_bytes(answer.budget_bytes) if answer.budget_named else "free"
    wanted = [] if answer.effective_batch is None else [f"effective {answer.effective_batch}"]
    rule = [] if answer.rule == "legroom" else [answer.rule]
    return place, budget, answer.settings.get("precision", ""), answer.estimate, answer.num_devices, *wanted, *rule


def _summary(answer: MemoryAnswer) -> str:
    budget = format_bytes(answer.budget_bytes)
    memory = "host memory" if answer.device == "cpu" else "the GPU's memory"
    place = f"{answer.card} ({budget})" if answer.card else f"{budget} of {memory}"
    if answer.estimate:
        low, high = answer.range
        return f"A batch of about {answer.max_batch_size:,} ({low:,} to {high:,}) should fit {place}; not proved."
    if not answer.verified:
        return f"A batch of {answer.max_batch_size:,} ran in {place}, but took more with every step; not proved."
    return f"A batch of {answer.max_batch_size:,} fits {place}, proved by training steps in a fresh process."


def _peaks(answer: MemoryAnswer) -> Figure:
    return Figure(
        name="memory-peaks",
        title="Memory against batch size",
        x=Axis(label="batch size"),
        y=Axis(label="peak", unit="bytes"),
        series=[*_phases(answer), *_tried(answer), _line(answer)],
        marks=[
            Mark(axis="y", value=answer.budget_bytes, label=f"budget {format_bytes(answer.budget_bytes)}"),
            Mark(axis="x", value=answer.max_batch_size, label=f"largest batch {answer.max_batch_size:,}"),
        ],
    )


def _phases(answer: MemoryAnswer) -> Iterable[Series]:
    probes = sorted(
        (probe for probe in answer.probes if probe["outcome"] == "measured" and not probe["proof"]),
        key=lambda probe: probe["batch_size"],
    )
    for phase in PHASES:
        seen = [probe for probe in probes if phase in probe["phase_bytes"] and probe["samples"] == "worst"]
        if seen:
            sizes = [probe["batch_size"] for probe in seen]
            yield Series(name=phase, x=sizes, y=[probe["phase_bytes"][phase] for probe in seen])


def _tried(answer: MemoryAnswer) -> Iterable[Series]:
    """Proofs that fit or do not, and sizes that did not run: nobody knows what they would take, so at the budget."""
    for name, fitting in (("proof", True), ("proof, too large", False)):
        ran = [probe for probe in answer.probes if probe["outcome"] == "measured" and probe["proof"]]
        proofs = [probe for probe in ran if within(probe, answer) == fitting]
        if proofs:
            sizes, peaks = [probe["batch_size"] for probe in proofs], [probe["peak_bytes"] for probe in proofs]
            yield Series(name=name, x=sizes, y=peaks, style="points", spread=[probe["spread"] for probe in proofs])
    failed = [probe["batch_size"] for probe in answer.probes if probe["outcome"] != "measured"]
    if failed:
        yield Series(name="did not fit", x=failed, y=[answer.budget_bytes] * len(failed), style="crosses")


def _line(answer: MemoryAnswer) -> Series:
    """The highest line of the law at the batch found, to where it meets the budget unless that is out of sight."""
    largest, meets = answer.max_batch_size, answer.range[1]
    ends = [0, max(largest, meets) if meets <= IN_SIGHT * largest else IN_SIGHT * largest]
    peaks: list[float | None] = [answer.fixed_bytes + answer.bytes_per_sample * size for size in ends]
    return Series(name="law", x=list(ends), y=peaks, style="dashes")


def _parts(answer: MemoryAnswer) -> Figure:
    names = sorted(answer.peak_parts, key=lambda name: -answer.peak_parts[name])
    return Figure(
        name="memory-parts",
        title=f"What the bytes are at the fullest moment ({answer.peak_phase})",
        x=Axis(label="part"),
        y=Axis(label="memory", unit="bytes"),
        series=[Series(name="bytes", x=names, y=[answer.peak_parts[name] for name in names], style="bars")],
    )


def _asked(answer: MemoryAnswer) -> str:
    """What was asked beyond place, budget and precision."""
    wanted = [] if answer.effective_batch is None else [f"{answer.effective_batch:,} an update"]
    devices = [] if answer.num_devices == 1 else [f"{answer.num_devices} devices"]
    return ", ".join([*wanted, *devices, *([] if answer.rule == "legroom" else [f"rule {answer.rule}"])])


def _budgets(answer: MemoryAnswer, others: Sequence[MemoryAnswer]) -> Table:
    every = sorted([answer, *others], key=lambda one: one.budget_bytes)
    return Table(
        name="memory-budgets",
        title="The same job within other budgets",
        columns=[
            Column(label="where"),
            Column(label="memory", unit="exact bytes"),
            Column(label="precision"),
            Column(label="largest batch"),
            Column(label="asked for"),
            Column(label=""),
        ],
        rows=[
            [
                one.card or one.device,
                one.budget_bytes,
                one.settings.get("precision", ""),
                one.max_batch_size,
                _asked(one),
                "estimated" if one.estimate else "proved" if one.verified else "not proved",
            ]
            for one in every
        ],
        chosen=[place for place, one in enumerate(every) if one is answer],
    )


def print_memory(console: Console, answer: MemoryAnswer) -> None:
    """The batch that fits, what it takes, and what was tried."""
    place = answer.card or answer.device
    print_title(
        console, answer, f"{place}, {format_bytes(answer.budget_bytes)}{', estimated' if answer.estimate else ''}"
    )
    print_rows(console, memory_rows(answer))
    if answer.probes:
        table = Grid("batch", "peak", "spread", "step", "what", title="what was tried", title_justify="left")
        for probe in answer.probes:
            table.add_row(*_probe_cells(probe, answer))
        console.print()
        console.print(table)
    print_remarks(console, answer)


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


VIEW = View(answer=MemoryAnswer, print=print_memory, section=section, circumstances=circumstances)
