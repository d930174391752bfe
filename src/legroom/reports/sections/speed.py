"""Where a larger batch stops paying, as a section: rate, time of an epoch and utilisation against the batch."""

from collections.abc import Iterable, Sequence

from legroom.advisors.speed import SpeedAnswer
from legroom.reports.console.speed import speed_rows
from legroom.reports.sections.base import Axis, Column, Figure, Mark, Section, Series, Table
from legroom.reports.sections.epochs import epoch_label, epoch_seconds

BATCH = Axis(label="batch size", log=True)


def section(answer: SpeedAnswer, others: Sequence[SpeedAnswer] = ()) -> Section:
    """The section; `others` were asked of other devices or precisions."""
    every = [answer, *others]
    return Section(
        title="Where does a larger batch stop paying?",
        summary=_summary(answer),
        facts=list(speed_rows(answer)),
        figures=[_rate(answer, others), _epoch(every), *_utilisation(every), *_memory(every), *_phases(answer)],
        tables=[_points(answer)],
    )


def circumstances(answer: SpeedAnswer) -> tuple[object, ...]:
    """What tells this answer from others of the same question."""
    rule = [] if answer.rule == "throughput" else [answer.rule]
    share = [] if answer.share == 0.9 else [f"{answer.share:g}"]
    return answer.device, answer.precision, answer.machine, *rule, *share


def _summary(answer: SpeedAnswer) -> str:
    known = [*answer.points, *answer.predictions]  # an older answer may name a knee that the law alone foretold
    knee = next((point for point in known if point["batch_size"] == answer.knee_batch_size), None)
    share = "" if knee is None else f" ({knee['samples_per_second'] / answer.best_samples_per_second:.0%} of the best)"
    if answer.rule == "utilisation":
        share = ""
    return (
        f"From a batch of {answer.knee_batch_size:,} on{share}, a larger one hardly pays; the best timed was "
        f"{answer.best_samples_per_second:,.0f} samples/s at {answer.best_batch_size:,}."
    )


def _rate(answer: SpeedAnswer, others: Sequence[SpeedAnswer]) -> Figure:
    sizes = [point["batch_size"] for point in answer.predictions]
    foretold = [point["samples_per_second"] for point in answer.predictions]
    return Figure(
        name="speed-rate",
        title="Samples per second against batch size",
        x=BATCH,
        y=Axis(label="rate", unit="samples/s"),
        series=[
            *(_series(one, "samples_per_second", spread=True, alone=not others) for one in (answer, *others)),
            *([Series(name="law", x=sizes, y=foretold, style="dashes")] if sizes else []),
        ],
        marks=[Mark(axis="x", value=answer.knee_batch_size, label=f"knee {answer.knee_batch_size:,}")],
    )


def _epoch(every: Sequence[SpeedAnswer]) -> Figure:
    return Figure(
        name="speed-epoch",
        title=f"{epoch_label(every[0]).capitalize()} against batch size, loading left out",
        x=BATCH,
        y=Axis(label=epoch_label(every[0]), unit="seconds"),
        series=[
            Series(
                name=_name(one) if len(every) > 1 else "steps",
                x=[point["batch_size"] for point in one.points],
                y=[epoch_seconds(one, point["samples_per_second"]) for point in one.points],
            )
            for one in every
        ],
        marks=[Mark(axis="x", value=every[0].knee_batch_size, label=f"knee {every[0].knee_batch_size:,}")],
    )


def _utilisation(every: Sequence[SpeedAnswer]) -> Iterable[Figure]:
    """How busy the device was (the thesis' figure 3.2); absent where nobody could read it."""
    names = {"utilisation": "device busy", "memory_utilisation": "its memory busy", "peak_share": "of peak FLOP/s"}
    series = [
        _series(one, key, name=name if len(every) == 1 else f"{name}, {_name(one)}")
        for one in every
        for key, name in names.items()
        if any(point[key] is not None for point in one.points)
    ]
    if series:
        yield Figure(
            name="speed-utilisation",
            title="Utilisation against batch size",
            x=BATCH,
            y=Axis(label="share", unit="share"),
            series=series,
        )


def _memory(every: Sequence[SpeedAnswer]) -> Iterable[Figure]:
    """What each size took (the thesis' figure 3.2); absent where nobody read it."""
    series = [
        Series(
            name=_name(one) if len(every) > 1 else "peak",
            x=[point["batch_size"] for point in one.points],
            y=[point["peak_bytes"] or None for point in one.points],
        )
        for one in every
        if any(point["peak_bytes"] for point in one.points)
    ]
    if series:
        yield Figure(
            name="speed-memory",
            title="Memory against batch size, as timed",
            x=BATCH,
            y=Axis(label="peak", unit="bytes"),
            series=series,
        )


def _phases(answer: SpeedAnswer) -> Iterable[Figure]:
    seen = [point for point in answer.points if point["shares"]]
    if seen:
        sizes = [f"{point['batch_size']:,}" for point in seen]
        yield Figure(
            name="speed-phases",
            title="Where a step's time goes",
            x=Axis(label="batch size"),
            y=Axis(label="share of the step", unit="share"),
            series=[
                Series(name=phase, x=sizes, y=[point["shares"].get(phase) for point in seen], style="bars")
                for phase in seen[0]["shares"]
            ],
        )


def _series(one: SpeedAnswer, key: str, *, name: str = "", spread: bool = False, alone: bool = True) -> Series:
    return Series(
        name=name or ("measured" if alone else _name(one)),
        x=[point["batch_size"] for point in one.points],
        y=[point[key] for point in one.points],
        spread=[point["spread"] for point in one.points] if spread else [],
    )


def _name(one: SpeedAnswer) -> str:
    return f"{one.device if one.device == 'cpu' else one.machine.rpartition(', ')[2]}, {one.precision}"


def _points(answer: SpeedAnswer) -> Table:
    """A row a size; what the device alone needs has a column where it was read."""
    apart = any(point.get("device_seconds") for point in answer.points)
    return Table(
        name="speed-points",
        title="Every size timed",
        columns=[
            Column(label="batch size"),
            Column(label="step", unit="seconds"),
            *([Column(label="device alone", unit="seconds")] if apart else []),
            Column(label="samples/s", unit="samples/s"),
            Column(label=epoch_label(answer), unit="seconds"),
            Column(label="busy", unit="share"),
            Column(label="memory", unit="bytes"),
        ],
        rows=[
            [
                point["batch_size"],
                point["median_seconds"],
                *([point.get("device_seconds")] if apart else []),
                point["samples_per_second"],
                epoch_seconds(answer, point["samples_per_second"]),
                point["utilisation"],
                point["peak_bytes"] or None,
            ]
            for point in answer.points
        ],
        chosen=[place for place, one in enumerate(answer.points) if one["batch_size"] == answer.knee_batch_size],
    )
