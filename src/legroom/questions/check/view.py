"""A check in a terminal and on the page."""

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.markup import escape

from legroom.questions.check.answer import CheckAnswer
from legroom.reports.figures import Column, Section, Table
from legroom.reports.numbers import quantity
from legroom.reports.terminal import Row, print_remarks, print_rows, print_title
from legroom.reports.views import View
from legroom.units import format_share


def print_check(console: Console, answer: CheckAnswer) -> None:
    """Whether it holds first, then why."""
    print_title(console, answer, f"{answer.device}, {answer.plan_path}")
    console.print(f"[bold]{escape(sentence(answer))}[/bold]\n")
    print_rows(console, check_rows(answer))
    print_remarks(console, answer)


def sentence(answer: CheckAnswer) -> str:
    """Whether the plan holds."""
    if answer.holds:
        told = ", and its steps are as fast as they were" if answer.expected_range else ""
        untold = "; whether its steps are as fast cannot be told, since other programs use this machine"
        timed = untold if answer.disturbed else told
        return f"The plan holds: its batch of {answer.batch_size:,} fits{timed}."
    return f"The plan holds no longer: its batch of {answer.batch_size:,} {_why(answer)}."


def _why(answer: CheckAnswer) -> str:
    return "takes longer than it did" if answer.fits else "does not fit"


def check_rows(answer: CheckAnswer) -> Iterable[Row]:
    """What was found, a fact a row."""
    yield "memory", "fits" if answer.fits else "does not fit", format_share(answer.peak_bytes, answer.budget_bytes)
    if answer.step_seconds is not None:
        then = "" if answer.expected_range is None else _then(answer)
        yield "a step", quantity(answer.step_seconds, "seconds"), then
    for place, what in enumerate(answer.differences):
        yield "changed" if place == 0 else "", what, ""
    if not answer.differences:
        yield "changed", "nothing that is known", ""


def _then(answer: CheckAnswer) -> str:
    assert answer.expected_range is not None
    low, high = answer.expected_range
    return f"when the plan was made {quantity(low, 'seconds')} to {quantity(high, 'seconds')}"


def section(answer: CheckAnswer, others: Sequence[CheckAnswer] = ()) -> Section:
    """The section of the page."""
    title, facts = "Does the plan still hold?", list(check_rows(answer))
    return Section(title=title, summary=sentence(answer), facts=facts, tables=[_then_and_now(answer)])


def _then_and_now(answer: CheckAnswer) -> Table:
    """Seconds of a step, with what another look may find."""
    rows = [("when the plan was made", answer.expected_seconds, answer.expected_range)]
    rows.append(("now", answer.step_seconds, answer.step_range))
    seconds = [Column(label=label, unit="seconds") for label in ("a step", "from", "to")]
    return Table(
        name="check-steps",
        title=f"Steps of {answer.batch_size:,} then and now",
        columns=[Column(label=""), *seconds],
        rows=[[name, middle, *(span or (None, None))] for name, middle, span in rows],
    )


VIEW = View(answer=CheckAnswer, print=print_check, section=section)
