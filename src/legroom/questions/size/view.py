"""How large a model: in a terminal and on the page."""

from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console

from legroom.questions.size.answer import SizeAnswer
from legroom.questions.size.wording import part
from legroom.reports.figures import Axis, Column, Figure, Mark, Section, Series, Table
from legroom.reports.numbers import quantity
from legroom.reports.terminal import Row, print_remarks, print_rows, print_title
from legroom.reports.views import View


def print_size(console: Console, answer: SizeAnswer) -> None:
    """The size, the law, and what the next doubling would buy."""
    print_title(console, answer, f"{answer.device}, batch {answer.batch_size:,}, {answer.rate_rule} rate")
    print_rows(console, size_rows(answer))
    print_remarks(console, answer)


def size_rows(answer: SizeAnswer) -> Iterable[Row]:
    """What was found, a fact a row."""
    yield from _choice_rows(answer)
    yield "updates", "a D^k1 / M^k2 + b", "M parameters, D samples, to within 1 % of the least validation loss"
    for name, what in (("k1", "data"), ("k2", "parameters")):
        low, high = getattr(answer, f"{name}_range")
        value = getattr(answer, name)
        one = "holds 1" if answer.holds_one[name] else "does not hold 1"
        yield f"  {name} ({what})", "open" if value is None else f"{value:.2f}", f"{low:.2f} to {high:.2f}; {one}"
    yield (
        "  b",
        f"{answer.b:,.0f}",
        "{:,.0f} to {:,.0f} updates that no larger model gets below".format(*answer.b_range),
    )
    yield "plateau", _count(answer.plateau), _plateau_words(answer)
    yield from _held_out_rows(answer)
    yield from _next_rows(answer)
    yield from _memory_rows(answer)
    yield from _solver_rows(answer)
    yield "search", f"{answer.num_trials} trials", f"compared by time on {part(answer.judged_fraction)}"


def _choice_rows(answer: SizeAnswer) -> Iterable[Row]:
    best, loss = recommended(answer), answer.target["loss"]
    if best is None:
        return
    low, high = answer.recommendations[0].range or (best["value"], best["value"])
    near = f"; {low:,} to {high:,} are nearly as soon" if low != high else ""
    own = f"; the job's own is {answer.own_value:,}" if answer.own_value else ""
    yield answer.vary, f"{best['value']:,}", f"reaches a loss of {loss:.4g} soonest{near}{own}"
    yield "  time to it", quantity(best["seconds"], "seconds"), f"{best['steps']:,.0f} updates"
    if answer.within.get("value") is not None:
        seconds = quantity(answer.within["seconds"], "seconds")
        best_loss = f"{answer.within['loss']:.4g}"
        yield f"best within {seconds}", best_loss, f"a loss, by {answer.vary} {answer.within['value']:,}"


def recommended(answer: SizeAnswer) -> dict[str, Any] | None:
    """The row of the recommended size."""
    value = answer.recommended_width if answer.vary == "width" else answer.recommended_depth
    return next((each for each in answer.times if each["value"] == value), None)


def _count(number: float | None) -> str:
    return "open" if number is None else f"{number:,.0f}"


def _plateau_words(answer: SizeAnswer) -> str:
    low, high = answer.plateau_range
    span = f"between {low or 0:,.3g} and {'any number' if high is None else f'{high:,.3g}'}"
    return f"parameters from which on twice as many save less than 5 % of the updates: {span}"


def _held_out_rows(answer: SizeAnswer) -> Iterable[Row]:
    known = [each for each in answer.held_out if each["error"] is not None]
    if not known:
        return
    errors = sorted(abs(each["error"]) for each in known)
    inside = sum(each["inside"] for each in answer.held_out)
    remark = f"median error of the updates; {inside} of {len(answer.held_out)} points inside their range"
    yield "held out", quantity(errors[len(errors) // 2], "share"), remark


def _next_rows(answer: SizeAnswer) -> Iterable[Row]:
    for name, found in (("twice the model", answer.next_model), ("twice the data", answer.next_data)):
        low, high = found["steps_ratio_range"]
        parts = [f"the updates ({low:.2f} to {high:.2f})"]
        if found["loss_ratio"] is not None:
            parts.append(f"{found['loss_ratio']:.3f} times the loss")
        if found["seconds_ratio"] is not None:
            parts.append(f"{found['seconds_ratio']:.2f} times the time")
        yield name, f"{found['steps_ratio']:.2f} times", ", ".join(parts)
    needed = answer.next_model["speedup_needed"]
    if needed is not None:
        words = "it pays already" if needed <= 1 else "its step must become so much faster before it pays"
        yield "  to pay", f"{needed:.2f} times", words


def _memory_rows(answer: SizeAnswer) -> Iterable[Row]:
    if answer.memory:
        fits = {True: "twice the largest fits", False: "twice the largest does not fit", None: ""}
        remark = fits[answer.memory["next_fits"]]
        if answer.memory["next_card"] and answer.memory["next_fits"] is False:
            num = answer.memory["next_num_devices"]
            remark += f"; it needs {answer.memory['next_card']}" + (f", {num} of them" if num > 1 else "")
        yield "memory", f"{answer.memory['bytes_per_parameter']:,.1f} bytes", f"a parameter; {remark}"
    if answer.fill:
        shares = ", ".join(f"{each['value']:,}: {quantity(each['share'], 'share')}" for each in answer.fill)
        yield "device filled", quantity(answer.fill[-1]["share"], "share"), f"of its best pace a parameter; {shares}"


def _solver_rows(answer: SizeAnswer) -> Iterable[Row]:
    for each in answer.solvers:
        low, high = each["k2_range"]
        yield each["solver"], f"{each['steps']:,.0f} updates", f"amid the trials; k2 {low:.2f} to {high:.2f}"
    sayings = {True: "yes", False: "no", None: "open"}
    for name, found in answer.solver_claims.items():
        yield name.replace("_", " "), sayings[found], "as N. Ardalani et al. (2018) have it"


def section(answer: SizeAnswer, others: Sequence[SizeAnswer] = ()) -> Section:
    """The section of the page."""
    return Section(
        title="How large a model, how much data?",
        summary=_summary(answer),
        facts=list(size_rows(answer)),
        figures=[_time_figure(answer), _steps_figure(answer), _loss_figure(answer), _curves_figure(answer)],
        tables=[_points_table(answer), _held_out_table(answer)],
    )


def _summary(answer: SizeAnswer) -> str:
    best = recommended(answer)
    if best is None:
        return f"No {answer.vary} reached the wanted loss."
    ratio = answer.next_model["steps_ratio"]
    took = quantity(best["seconds"], "seconds")
    return (
        f"A {answer.vary} of {best['value']:,} reaches a loss of {answer.target['loss']:.4g} soonest, in {took}; "
        f"twice the parameters would need {ratio:.2f} times the updates."
    )


def _time_figure(answer: SizeAnswer) -> Figure:
    """Updates, seconds a step and both together against the size, as in the study's first figure."""
    sizes = [each["num_parameters"] for each in answer.times]
    first = answer.times[0] if answer.times else {}
    columns = {"updates": "steps", "seconds a step": "step_seconds", "time": "seconds"}
    series = [
        Series(name=name, x=sizes, y=[_over(each[key], first.get(key)) for each in answer.times])
        for name, key in columns.items()
    ]
    return Figure(
        name="size-time",
        title=f"To a loss of {answer.target['loss'] or 0:.4g}, over the smallest size's",
        x=Axis(label="parameters", log=True),
        y=Axis(label="times the smallest's", log=True),
        series=series,
    )


def _over(value: float | None, first: float | None) -> float | None:
    return value / first if value is not None and first else None


def _steps_figure(answer: SizeAnswer) -> Figure:
    """Updates against the size for each share of the data: points, law and range."""
    series = []
    for line in answer.lines:
        share, sizes = part(line["fraction"]), line["num_parameters"]
        inside = [each for each in _own(answer, line["fraction"]) if not each["held_out"]]
        held = [each for each in _own(answer, line["fraction"]) if each["held_out"]]
        series.append(Series(name=f"{share}: law", x=sizes, y=line["steps"]))
        series += [Series(name=f"{share}: {end}", x=sizes, y=line[end], style="dashes") for end in ("low", "high")]
        series.append(_dots(f"{share}: measured", inside, "steps", "points"))
        series.append(_dots(f"{share}: held out", held, "steps", "crosses"))
    marks = [Mark(axis="x", value=answer.plateau, label="plateau")] if answer.plateau else []
    return Figure(
        name="size-steps",
        title="Updates to within 1 % of the least validation loss",
        x=Axis(label="parameters", log=True),
        y=Axis(label="updates", log=True),
        series=[each for each in series if each.x],
        marks=marks,
    )


def _own(answer: SizeAnswer, fraction: float) -> list[dict[str, Any]]:
    found = [each for each in answer.points if each["solver"] == "own" and each["steps"] is not None]
    return [each for each in found if each["fraction"] == fraction]


def _dots(name: str, points: Sequence[dict[str, Any]], key: str, style: Any) -> Series:
    return Series(
        name=name, x=[each["num_parameters"] for each in points], y=[each[key] for each in points], style=style
    )


def _loss_figure(answer: SizeAnswer) -> Figure:
    """The least loss against the size, for each share of the data."""
    series = []
    for line in answer.lines:
        share = part(line["fraction"])
        series.append(_dots(f"{share}: measured", _own(answer, line["fraction"]), "least_loss", "points"))
        series.append(_dots(f"{share}: cooled down", _cooled(answer, line["fraction"]), "cooled_loss", "crosses"))
        series.append(_dots(f"{share}: law", _once(_own(answer, line["fraction"])), "predicted_loss", "line"))
    return Figure(
        name="size-loss",
        title="Least validation loss",
        x=Axis(label="parameters", log=True),
        y=Axis(label="loss", log=True),
        series=[each for each in series if each.x],
    )


def _cooled(answer: SizeAnswer, fraction: float) -> list[dict[str, Any]]:
    return [each for each in _own(answer, fraction) if each["cooled_loss"] is not None]


def _once(points: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One point a size, in order."""
    known = {each["num_parameters"]: each for each in points if each["predicted_loss"] is not None}
    return [known[size] for size in sorted(known)]


def _curves_figure(answer: SizeAnswer) -> Figure:
    """Validation loss over the updates, on the data that sizes are compared on."""
    points = _own(answer, answer.judged_fraction)
    series = [
        Series(
            name=f"{answer.vary} {each[answer.vary]:,}, seed {each['seed']}",
            x=each["curve"]["steps"],
            y=each["curve"]["loss"],
        )
        for each in points
    ]
    loss = answer.target["loss"]
    return Figure(
        name="size-curves",
        title=f"Validation loss on {part(answer.judged_fraction)}",
        x=Axis(label="updates", log=True),
        y=Axis(label="loss", log=True),
        series=series,
        marks=[Mark(axis="y", value=loss, label="target")] if loss else [],
    )


def _points_table(answer: SizeAnswer) -> Table:
    """Every trial."""
    keys = (answer.vary, "fraction", "seed", "solver", "num_parameters", "outcome", "steps", "predicted_steps")
    more = ("least_loss", "cooled_steps", "cooled_loss", "step_seconds", "peak_bytes")
    units = {"step_seconds": "seconds", "peak_bytes": "bytes"}
    columns = [Column(label=key.replace("_", " "), unit=units.get(key, "")) for key in (*keys, *more)]  # type: ignore[arg-type]
    rows = [[_rounded(each[key]) for key in (*keys, *more)] for each in answer.points]
    return Table(name="size-points", title="Every trial", columns=columns, rows=rows)


def _held_out_table(answer: SizeAnswer) -> Table:
    """What the law foretold beside what was measured."""
    keys = ("value", "fraction", "num_seeds", "steps", "predicted_steps", "low", "high", "inside", "least_loss")
    rows = [
        [_rounded({**each, "low": each["predicted_range"][0], "high": each["predicted_range"][1]}[key]) for key in keys]
        for each in answer.held_out
    ]
    labels = {"value": answer.vary, "num_seeds": "seeds", "predicted_steps": "foretold", "steps": "measured"}
    columns = [Column(label=labels.get(key, key.replace("_", " "))) for key in keys]
    return Table(name="size-held-out", title="Held out of the fit", columns=columns, rows=rows)


def _rounded(value: Any) -> Any:
    return float(f"{value:.4g}") if isinstance(value, float) else value


def circumstances(answer: SizeAnswer) -> tuple[object, ...]:
    """One answer for each dimension and rule of the rate."""
    return answer.device, answer.vary, answer.rate_rule, answer.batch_size


VIEW = View(answer=SizeAnswer, print=print_size, section=section, circumstances=circumstances)
