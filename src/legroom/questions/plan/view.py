"""What to run, in a terminal and as a section: the answer in one sentence, before and after, what it cost."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape

from legroom.questions.base import Recommendation
from legroom.questions.plan.answer import PlanAnswer
from legroom.questions.plan.what_if import FIGURE, what_if_of
from legroom.reports.figures import Column, Section, Table
from legroom.reports.numbers import target_words
from legroom.reports.offers import offers_on_page, print_offers
from legroom.reports.terminal import Grid, print_title
from legroom.reports.views import View
from legroom.reports.what_if import time_figure
from legroom.units import format_seconds

COMPARED = {
    "model_size": "model size",
    "batch_size": "batch",
    "accumulation_steps": "passes an update",
    "num_devices": "devices",
    "learning_rate": "learning rate",
    "warmup_steps": "warm-up",
    "schedule": "schedule",
    "num_epochs": "epochs",
    "num_workers": "workers",
    "prefetch_factor": "prefetch",
    "precision": "precision",
    "channels_last": "channels last",
    "fused": "fused optimizer",
    "compile": "torch.compile",
}
"""Settings of the table, by the names people have for them."""
ALWAYS = ("batch_size", "learning_rate", "num_workers")


def summary(answer: PlanAnswer) -> str:
    """The answer in one sentence."""
    if answer.kept:
        own = answer.baseline.get("num_workers") == answer.num_workers
        what = "settings" if own else "batch, rate and length"
        return f"Keep the job's own {what} ({_settings(answer)}): nothing was surely better{_time(answer)}."
    told = _settings(answer)
    return f"{told[:1].upper()}{told[1:]}{_time(answer)}."


def _settings(answer: PlanAnswer) -> str:
    is_other = answer.model_size != answer.baseline.get("model_size", "")
    size = answer.model_size.replace("=", " ") + ", " if is_other else ""
    batch = f"{size}batch {answer.batch_size:,}"
    if answer.accumulation_steps > 1:
        batch += f" in {answer.accumulation_steps} passes an update"
    if answer.num_devices > 1:
        batch += f" on each of {answer.num_devices:,} devices"
    if answer.num_devices_missing:
        batch += f" ({answer.num_devices_missing:,} of them are not here: a forecast)"
    warm = f" with {answer.warmup_steps:,} warm-up steps" if answer.warmup_steps else ""
    kept = {item.name for item in answer.recommendations if not item.evidence}
    own = " (the job's own)" if "learning_rate" in kept and not answer.kept else ""
    return f"{batch}, rate {answer.learning_rate:.3g}{own}{warm}, {_workers(answer.num_workers)}{_faster(answer)}"


def _faster(answer: PlanAnswer) -> str:
    """Variants of the step that the job's own settings do not have, and variables of the environment."""
    names = {"precision": f"in {answer.precision}", "fused": "fused optimizer", "compile": "torch.compile"}
    names["channels_last"] = "channels last"
    changed = [word for name, word in names.items() if answer.baseline.get(name) != answer.settings.get(name)]
    variables = [item.value for item in answer.recommendations if item.name == "environment"]
    return "".join(f", {word}" for word in [*changed, *variables])


def _workers(num: int) -> str:
    return {0: "no workers", 1: "1 worker"}.get(num, f"{num} workers")


def _time(answer: PlanAnswer) -> str:
    if answer.predicted_seconds is None or answer.predicted_range is None:
        why = answer.missing[0].partition(". ")[0] if answer.missing else ""  # the rest stands below
        return f": no forecast; {why[:1].lower()}{why[1:]}" if why else ""
    about, low, high = (format_seconds(value) for value in (answer.predicted_seconds, *answer.predicted_range))
    reached = f": {target_words(answer.target)} in about {about} ({low} to {high})"
    cost = "" if answer.predicted_cost is None else f" for {answer.predicted_cost:.3g}"
    return reached + cost + ("" if answer.kept else before(answer))


def before(answer: PlanAnswer) -> str:
    """How long the job's own settings take, and how that is known."""
    if answer.baseline_from == "never":
        return "; the job's own settings did not get there"
    if answer.baseline_seconds is None:
        return ""
    seconds = format_seconds(answer.baseline_seconds)
    return {
        "measured": f" instead of {seconds}",
        "forecast": f" instead of about {seconds} (forecast)",
        "at least": f" instead of more than {seconds}",
    }[answer.baseline_from]


def section(answer: PlanAnswer, others: Sequence[PlanAnswer] = ()) -> Section:
    """The section; a folder holds one plan, so there are no others."""
    asked = what_if_of(answer)
    return Section(
        title="What should I run?",
        summary=summary(answer),
        facts=[("open", "", sentence) for sentence in answer.missing],
        figures=[time_figure(FIGURE, asked)] if asked else [],
        tables=[
            _compared(answer),
            *([offers_on_page(answer.offers)] if answer.offers else []),
            _recommendations(answer),
            *([_sizes(answer)] if answer.sizes else []),
            *([_spent(answer)] if answer.spent else []),
        ],
        what_if=asked,
    )


def _compared(answer: PlanAnswer) -> Table:
    return Table(
        name="plan-compared",
        title="Before and after",
        columns=[
            *(Column(label=label) for label in ("setting", "the job's own", "plan")),
            Column(label="because", sentences=True),
        ],
        rows=compared_rows(answer),
        opens=True,
    )


def compared_rows(answer: PlanAnswer) -> list[list[str]]:
    """Settings that change, and the most important ones anyway; then the time to the target."""
    because = {item.name: item.because for item in answer.recommendations}
    asked = {item.name for item in answer.recommendations if item.name == "num_devices" and item.evidence}
    rows = [
        [label, _word(answer.baseline.get(name)), _word(answer.settings.get(name)), because.get(name, "")]
        for name, label in COMPARED.items()
        if name in {*ALWAYS, *asked} or answer.baseline.get(name) != answer.settings.get(name)
    ]
    rows += [
        ["environment", "as it is", item.value, item.because]
        for item in answer.recommendations
        if item.name == "environment"
    ]
    own = before(answer).removeprefix(" instead of ").removeprefix("; the job's own settings ")
    if answer.predicted_seconds is not None and answer.predicted_range is not None:
        low, high = (format_seconds(value) for value in answer.predicted_range)
        told = f"{format_seconds(answer.predicted_seconds)} ({low} to {high})"
        rows.append(
            ["time to target", own, told, f"to {target_words(answer.target)}; forecast from measured updates and steps"]
        )
    return rows


def _recommendations(answer: PlanAnswer) -> Table:
    found, kept = split_recommendations(answer)
    rows = [
        [
            item.name,
            item.value,
            "" if item.range is None else f"{_word(item.range[0])} to {_word(item.range[1])}",
            item.because,
        ]
        for item in found
    ]
    rest = ", ".join(f"{item.name} {_word(item.value)}" for item in kept if item.value != "")
    return Table(
        name="plan-settings",
        title="Every setting",
        columns=[
            *(Column(label=label) for label in ("setting", "value", "range")),
            Column(label="because", sentences=True),
        ],
        rows=[*rows, ["the rest", "", "", f"as the job has them: {rest}"]],
    )


def _sizes(answer: PlanAnswer) -> Table:
    names = ("model_size", "num_parameters", "batch_size", "learning_rate", "predicted_seconds", "why")
    return Table(
        name="plan-sizes",
        title="Model sizes at the same target",
        columns=[
            Column(label="size"),
            *(Column(label=label) for label in ("parameters", "batch", "rate")),
            Column(label="time to target", unit="seconds"),
            Column(label="why there is none", sentences=True),
        ],
        rows=[[row[name] for name in names] for row in answer.sizes],
    )


def _spent(answer: PlanAnswer) -> Table:
    paid = {**answer.spent, **answer.before}
    rows = [[name, seconds, answer.found.get(name, "")] for name, seconds in paid.items()]
    return Table(
        name="plan-spent",
        title="What the plan itself took",
        columns=[
            Column(label="question"),
            Column(label="time", unit="seconds"),
            Column(label="what it found", sentences=True),
        ],
        rows=rows,
    )


def split_recommendations(answer: PlanAnswer) -> tuple[list[Recommendation], list[Recommendation]]:
    """What was found, and what stays as the job has it because nothing was measured for it."""
    kept = [item for item in answer.recommendations if not item.evidence]
    return [item for item in answer.recommendations if item not in kept], kept


def print_plan(console: Console, answer: PlanAnswer) -> None:
    """The answer in a sentence, before and after with the reasons, then the rest."""
    print_title(console, answer, f"goal: {answer.goal}")
    console.print(f"\n[bold]{escape(summary(answer))}[/bold]\n")
    table = Grid("setting", "the job's own", "plan", "because")
    for row in compared_rows(answer):
        table.add_row(*map(escape, row))
    console.print(table)
    for line in [*answer.missing, *answer.notes]:
        console.print(f"  - {escape(line)}")
    if answer.offers:
        print_offers(console, answer.offers)
    if answer.shown_code:
        console.print(f"\n[bold]For {answer.shown_code}[/bold]\n")
        console.print(answer.code[answer.shown_code], markup=False, highlight=False, soft_wrap=True)
    if answer.spent:
        console.print(f"\nThe plan took {format_seconds(answer.seconds)}:")
        console.print(_bought(answer))


def _bought(answer: PlanAnswer) -> Grid:
    """What each question took, and what it found for that."""
    table = Grid("question", "took", "found")
    for name, seconds in {**answer.spent, **answer.before}.items():
        table.add_row(name, format_seconds(seconds), escape(answer.found.get(name, "")))
    return table


def _word(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}" if isinstance(value, float) else f"{value}"


VIEW = View(
    answer=PlanAnswer,
    print=print_plan,
    section=section,
    made_of=("memory", "speed", "loading", "rate", "devices", "variants"),
)
