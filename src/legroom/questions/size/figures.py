"""Figures and tables of sizes: laws with their ranges, what was measured, held out, and cut short."""

from collections.abc import Iterable, Sequence
from typing import Any

from legroom.questions.size.answer import SizeAnswer
from legroom.questions.size.wording import part
from legroom.reports.figures import Axis, Column, Figure, Mark, Series, Table

Points = Sequence[dict[str, Any]]
PARAMETERS = Axis(label="parameters", log=True)


def figures_of(answer: SizeAnswer) -> list[Figure]:
    """Time, updates and loss against the size, as in the study's first three figures, and the curves of trials."""
    return [_time_figure(answer), _steps_figure(answer), _loss_figure(answer), _curves_figure(answer)]


def tables_of(answer: SizeAnswer, others: Sequence[SizeAnswer]) -> list[Table]:
    """Every trial, what was held out, and answers with the rate scaled otherwise."""
    return [_points_table(answer), _held_out_table(answer), *_rules_table([answer, *others])]


def _time_figure(answer: SizeAnswer) -> Figure:
    """Updates, seconds a step and both together against the size."""
    first = answer.times[0] if answer.times else {}
    columns = {"updates": "steps", "seconds a step": "step_seconds", "time": "seconds"}
    sizes = [each["num_parameters"] for each in answer.times]
    series = [
        Series(name=name, x=sizes, y=[_over(each[key], first.get(key)) for each in answer.times], group=name)
        for name, key in columns.items()
    ]
    held = {each[answer.vary] for each in _own(answer, answer.judged_fraction) if each["held_out"]}
    rings = [each for each in answer.times if each["value"] in held]
    ringed = [_over(each["steps"], first.get("steps")) for each in rings]
    series.append(
        Series(
            name="updates, held out",
            x=[each["num_parameters"] for each in rings],
            y=ringed,
            style="rings",
            group="updates",
        )
    )
    return Figure(
        name="size-time",
        title=f"To a loss of {answer.target['loss'] or 0:.4g}, over the smallest size's",
        x=PARAMETERS,
        y=Axis(label="times the smallest's", log=True),
        series=_whole([*series, *_time_laws(answer, first)]),
    )


def _time_laws(answer: SizeAnswer, first: dict[str, Any]) -> Iterable[Series]:
    """Of updates to the least loss, and of seconds a step, over what they give at the smallest size compared."""
    judged = [line for line in answer.lines if line["fraction"] == answer.judged_fraction]
    for name, lines, key in (("updates", judged, "steps"), ("seconds a step", [answer.pace_line], "step_seconds")):
        for line in lines:
            if first and line:
                places = zip(line["num_parameters"], line[key], strict=True)
                _, least = min(places, key=lambda place: abs(place[0] - first["num_parameters"]))
                over = {end: [value / least for value in line[end]] for end in (key, "low", "high")}
                yield _law(f"{name}: law", line["num_parameters"], over[key], over["low"], over["high"], name)


def _over(value: float | None, first: float | None) -> float | None:
    return value / first if value is not None and first else None


def _steps_figure(answer: SizeAnswer) -> Figure:
    """Updates against the size for each share of the data: law, range and points."""
    series: list[Series] = []
    for line in answer.lines:
        share, sizes = part(line["fraction"]), line["num_parameters"]
        series.append(_law(f"{share}: law", sizes, line["steps"], line["low"], line["high"], share))
        points = _own(answer, line["fraction"])
        series += _seen(share, [each for each in points if not each["at_least"]], "steps")
        cut = [each for each in points if each["at_least"]]
        series.append(_dots(f"{share}: at least, its time was over", cut, "steps", "crosses", share))
    marks = [Mark(axis="x", value=answer.plateau, label="plateau")] if answer.plateau else []
    return Figure(
        name="size-steps",
        title="Updates to within 1 % of the least validation loss",
        x=PARAMETERS,
        y=Axis(label="updates", log=True),
        series=_whole(series),
        marks=marks,
    )


def _loss_figure(answer: SizeAnswer) -> Figure:
    """The least loss against the size, for each share of the data."""
    series: list[Series] = []
    for line in answer.lines:
        share, points = part(line["fraction"]), _own(answer, line["fraction"])
        if "loss" in line:
            ends = line["loss_low"], line["loss_high"]
            series.append(_law(f"{share}: law", line["num_parameters"], line["loss"], *ends, share))
        series += _seen(share, [each for each in points if not each["at_least"]], "least_loss")
        cut = [each for each in points if each["at_least"]]
        series.append(_dots(f"{share}: at most, its time was over", cut, "least_loss", "crosses", share))
        cooled = sorted((each for each in points if each["cooled_loss"] is not None), key=_size)
        series.append(_dots(f"{share}: cooled down", cooled, "cooled_loss", "line", ""))
    return Figure(
        name="size-loss",
        title="Least validation loss",
        x=PARAMETERS,
        y=Axis(label="loss", log=True),
        series=_whole(series),
    )


def _law(name: str, x: list[Any], y: list[Any], low: list[Any], high: list[Any], group: str) -> Series:
    return Series(name=name, x=x, y=y, low=low, high=high, style="dashes", group=group)


def _seen(share: str, points: Points, key: str) -> Iterable[Series]:
    """What the fit rests on, and what it was held against."""
    for name, style, held in (("measured", "points", False), ("held out", "rings", True)):
        yield _dots(f"{share}: {name}", [each for each in points if each["held_out"] is held], key, style, share)


def _dots(name: str, points: Points, key: str, style: Any, group: str) -> Series:
    return Series(
        name=name, x=[_size(each) for each in points], y=[each[key] for each in points], style=style, group=group
    )


def _size(point: dict[str, Any]) -> Any:
    return point["num_parameters"]


def _whole(series: Iterable[Series]) -> list[Series]:
    return [each for each in series if each.x]


def _own(answer: SizeAnswer, fraction: float) -> list[dict[str, Any]]:
    found = [each for each in answer.points if each["solver"] == "own" and each["steps"] is not None]
    return [each for each in found if each["fraction"] == fraction]


def _curves_figure(answer: SizeAnswer) -> Figure:
    """Validation loss over the updates, on the data that sizes are compared on, and of runs of each length."""
    series: list[Series] = []
    for each in _own(answer, answer.judged_fraction):
        name, cooled = f"{answer.vary} {each[answer.vary]:,}, seed {each['seed']}", each.get("cooled_curve")
        series.append(Series(name=name, x=each["curve"]["steps"], y=each["curve"]["loss"], group=name))
        if cooled and cooled["steps"]:
            whole = f"{name}: cooled down by then"
            series.append(Series(name=whole, x=cooled["steps"], y=cooled["loss"], style="points", group=name))
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
    """What the laws foretold beside what was measured."""
    keys = ("value", "fraction", "num_seeds", "steps", "predicted_steps", "low", "high", "inside")
    more = ("least_loss", "predicted_loss", "loss_low", "loss_high", "loss_inside")
    rows = [[_rounded(row.get(key)) for key in (*keys, *more)] for row in map(_with_ends, answer.held_out)]
    labels = {"value": answer.vary, "num_seeds": "seeds", "predicted_steps": "foretold", "steps": "measured"}
    columns = [Column(label=labels.get(key, key.replace("_", " "))) for key in (*keys, *more)]
    return Table(name="size-held-out", title="Held out of the fit", columns=columns, rows=rows)


def _with_ends(row: dict[str, Any]) -> dict[str, Any]:
    low, high = row["predicted_range"]
    loss_low, loss_high = row.get("predicted_loss_range") or (None, None)
    return {**row, "low": low, "high": high, "loss_low": loss_low, "loss_high": loss_high}


def _rules_table(answers: Sequence[SizeAnswer]) -> Iterable[Table]:
    """Answers of one folder beside each other: the rate fixed and scaled, widths and depths."""
    if len(answers) > 1:
        labels = ("rate", "varied", "batch", "k1", "k2", "plateau", "recommended", "twice the model, times the updates")
        rows = [[each.rate_rule, each.vary, each.batch_size, *map(_rounded, _compared(each))] for each in answers]
        title = "Beside the other answers of this folder"
        yield Table(name="size-rules", title=title, columns=[Column(label=label) for label in labels], rows=rows)


def _compared(answer: SizeAnswer) -> list[Any]:
    best = answer.recommended_width or answer.recommended_depth
    return [answer.k1, answer.k2, answer.plateau, best, answer.next_model["steps_ratio"]]


def _rounded(value: Any) -> Any:
    return float(f"{value:.4g}") if isinstance(value, float) else value
