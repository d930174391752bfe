"""Which rate, in a terminal and on the page."""

from collections.abc import Iterable, Sequence

from rich.console import Console

from legroom.questions.rate.answer import RateAnswer
from legroom.reports.figures import Axis, Figure, Mark, Section, Series
from legroom.reports.terminal import Row, print_remarks, print_rows, print_title
from legroom.reports.views import View


def print_rate(console: Console, answer: RateAnswer) -> None:
    """The rate, its updates, and what it rests on."""
    print_title(console, answer, f"{answer.device}, batch {answer.batch_size:,}")
    print_rows(console, rate_rows(answer))
    print_remarks(console, answer)


def rate_rows(answer: RateAnswer) -> Iterable[Row]:
    """What was found, a fact a row."""
    low, high = answer.range
    yield "learning rate", f"{answer.learning_rate:.3g}", f"{low:.3g} to {high:.3g} are as good"
    yield (
        "updates",
        f"{answer.num_steps:,}" if answer.reached else f"more than {answer.num_steps:,}",
        f"{answer.num_epochs:.3g} epochs; the job's own run: {answer.baseline_steps:,}",
    )
    yield "schedule", answer.schedule, f"the last {answer.cooldown_steps:,} updates cool down"
    target = answer.target
    source = {"given": "as asked", "measured": "what the job's own settings reach", "forecast": "forecast"}
    yield "target", f"{target['name']} {target['value']:.4g}", source[target["from"]]
    if answer.critical_batch_size is not None and answer.critical_range is not None:
        between = "{:,.0f} to {:,.0f}".format(*answer.critical_range)
        yield "critical batch", f"{answer.critical_batch_size:,.0f}", f"{between}; beyond it larger batches save little"
    if answer.sensitivity:
        times = answer.sensitivity
        yield "sensitivity", f"{times['half']:.2f} times", "the updates at half or twice the rate"
    yield "search", f"{answer.num_trials} trials", f"{answer.num_samples:,} samples"


def section(answer: RateAnswer, others: Sequence[RateAnswer] = ()) -> Section:
    """The section of the page."""
    return Section(
        title="Which learning rate?",
        summary=_summary(answer),
        facts=list(rate_rows(answer)),
        figures=[_curves(answer)],
    )


def _summary(answer: RateAnswer) -> str:
    target = f"{answer.target['name']} {answer.target['value']:.4g}"
    reached = f"reaches {target} in {answer.num_steps:,} updates" if answer.reached else f"did not reach {target}"
    return f"At batches of {answer.batch_size:,} a rate of {answer.learning_rate:.3g} {reached}."


def _curves(answer: RateAnswer) -> Figure:
    series = [
        Series(name=f"{curve['learning_rate']:.3g}, seed {curve['seed']}", x=curve["num_steps"], y=curve["value"])
        for curve in answer.curves
    ]
    return Figure(
        name="rate-curves",
        title=f"Validation {answer.target['name']} of a run that ends there",
        x=Axis(label="updates", log=True),
        y=Axis(label=answer.target["name"]),
        series=series,
        marks=[Mark(axis="y", value=answer.target["value"], label="target")],
    )


def circumstances(answer: RateAnswer) -> tuple[object, ...]:
    """One answer for each batch size and target."""
    return answer.device, answer.batch_size, answer.target["name"], answer.method


VIEW = View(answer=RateAnswer, print=print_rate, section=section, circumstances=circumstances)
