"""Which rate, in a terminal and on the page."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console

from legroom.questions.rate.answer import RateAnswer
from legroom.reports.figures import Axis, Figure, Mark, Section, Series
from legroom.reports.terminal import Row, print_remarks, print_rows, print_title
from legroom.reports.views import View

SOURCES = {
    "given": "as asked",
    "measured": "what the job's own settings reach",
    "forecast": "forecast of what the job's own settings reach",
    "begun": "what the job's own settings reach in a quarter of the budget",
    "reached": "what the best trial came to",
}


def print_rate(console: Console, answer: RateAnswer) -> None:
    """The rate, its updates, and what it rests on."""
    print_title(console, answer, f"{answer.device}, batch {answer.batch_size:,}")
    print_rows(console, rate_rows(answer))
    print_remarks(console, answer)


def rate_rows(answer: RateAnswer) -> Iterable[Row]:
    """What was found, a fact a row."""
    low, high = answer.range
    yield "learning rate", f"{answer.learning_rate:.3g}", answer.recommendations[0].because
    tests_range = answer.method == "range"
    as_good = (
        "where the seeds' losses fall fastest or are least" if tests_range else "rates that need hardly more updates"
    )
    yield "as good", f"{low:.3g} to {high:.3g}", as_good
    target = answer.target
    if target["value"] is not None:
        yield "updates", f"{answer.num_steps:,}" if answer.reached else _unreached(answer), _length(answer)
        yield "target", f"{target['name']} {target['value']:.4g}", SOURCES[target["from"]]
    if answer.on_all_data is not None:
        yield "on all data", *_whole_data(answer.on_all_data)
    if not tests_range:
        cools = f"the last {answer.cooldown_steps:,} updates cool down" if answer.cooldown_steps else ""
        yield "schedule", answer.schedule, cools
        yield "warm-up", f"{answer.warmup_steps:,} updates", ""
    yield from _batch_rows(answer)
    if answer.sensitivity:
        yield _sensitivity(answer)
    yield "search", f"{answer.num_trials} trials", f"{answer.num_samples:,} samples"


def _sensitivity(answer: RateAnswer) -> Row:
    """What half and twice the rate cost; of a range test, how fast the loss falls there."""
    is_slope = answer.method == "range"
    times = {name: 1 / each if is_slope else each for name, each in answer.sensitivity.items()}
    told = ", ".join(f"{times[name]:.2f} times at {name}" for name in ("half", "twice") if name in times)
    if is_slope:
        return "slope", told, "how fast the loss falls there while the rate climbs, of that at the rate"
    return "sensitivity", told, "the updates at half and at twice the rate"


def _unreached(answer: RateAnswer) -> str:
    if answer.extrapolated_steps is None:
        return f"more than {answer.num_steps:,}"
    return f"{_span(*answer.extrapolated_steps)}, extrapolated"


def _span(low: float, high: float | None) -> str:
    if high is None:
        return f"{low:,.0f} or more"
    return f"about {low:,.0f}" if low == high else f"{low:,.0f} to {high:,.0f}"


def _length(answer: RateAnswer) -> str:
    """The updates in epochs: those to the target, or those that were run without it."""
    was_run = not answer.reached and answer.method != "transfer"
    run = f"{answer.num_steps:,} were run, " if was_run else ""
    return f"{run}{answer.num_epochs:.3g} epochs; the job's own run: {answer.baseline_steps:,}"


def _whole_data(found: Mapping[str, Any]) -> tuple[str, str]:
    """What a run of this rate came to that saw more than the search."""
    updates = f"{found['num_steps']:,.0f} updates" if found["reached"] else "the target was not reached"
    return updates, f"{found['times']:.2f} times those on the part searched" if found["times"] else ""


def _batch_rows(answer: RateAnswer) -> Iterable[Row]:
    """How the batch may grow, and the rate with it."""
    if answer.critical_batch_size is not None and answer.critical_range is not None:
        between = "{:,.0f} to {:,.0f}".format(*answer.critical_range)
        yield "critical batch", f"{answer.critical_batch_size:,.0f}", f"{between}; beyond it larger batches save little"
    if answer.noise_scale is not None and answer.noise_range is not None:
        low, high = answer.noise_range
        until = "unknown" if high is None else f"{high:,.0f}"
        yield "noise scale", f"{answer.noise_scale:,.0f}", f"{low:,.0f} to {until}; a guess of the critical batch"
    sources = {"branches": "as branches tell", "comparison": "the best of all compared", "given": "as asked"}
    yield "rule", answer.rule, sources.get(answer.rule_from, "the usual one for this optimizer")


def section(answer: RateAnswer, others: Sequence[RateAnswer] = ()) -> Section:
    """The section of the page."""
    return Section(
        title="Which learning rate?",
        summary=_summary(answer),
        facts=list(rate_rows(answer)),
        figures=[_curves(answer)],
    )


def _summary(answer: RateAnswer) -> str:
    rate = f"At batches of {answer.batch_size:,} a rate of {answer.learning_rate:.3g}"
    if answer.target["value"] is None:
        return f"{rate} lets the loss fall fastest while the rate climbs."
    target = f"{answer.target['name']} {answer.target['value']:.4g}"
    if answer.method == "transfer" and not answer.reached and answer.extrapolated_steps is not None:
        return f"{rate} should reach {target} in {_span(*answer.extrapolated_steps)} updates."
    reached = f"reaches {target} in {answer.num_steps:,} updates" if answer.reached else f"did not reach {target}"
    return f"{rate} {reached}."


def _curves(answer: RateAnswer) -> Figure:
    if answer.method == "range":
        return _ramps(answer)
    series = [
        Series(
            name=curve["name"] or f"{curve['learning_rate']:.3g}, seed {curve['seed']}",
            x=curve["num_steps"],
            y=curve["value"],
        )
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


def _ramps(answer: RateAnswer) -> Figure:
    """Smoothed losses over the rate."""
    return Figure(
        name="rate-ramps",
        title="Training loss while the rate climbs",
        x=Axis(label="learning rate", log=True),
        y=Axis(label="loss", log=True),
        series=[Series(name=curve["name"], x=curve["rates"], y=curve["losses"]) for curve in answer.curves],
        marks=[Mark(axis="x", value=answer.learning_rate, label="recommended")],
    )


def circumstances(answer: RateAnswer) -> tuple[object, ...]:
    """One answer for each batch size and target."""
    return answer.device, answer.batch_size, answer.target["name"], answer.method


VIEW = View(answer=RateAnswer, print=print_rate, section=section, circumstances=circumstances)
