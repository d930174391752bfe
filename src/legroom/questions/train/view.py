"""What a training run came to, as a section: losses, scores and rates over the run, and the time of each epoch."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from rich.console import Console

from legroom.questions.train.answer import TrainAnswer
from legroom.reports.figures import Axis, Figure, Mark, Section, Series
from legroom.reports.terminal import Grid, Row, print_remarks, print_rows, print_title
from legroom.reports.views import View
from legroom.units import format_seconds


def section(answer: TrainAnswer, others: Sequence[TrainAnswer] = ()) -> Section:
    """The section; a later run replaces an earlier one."""
    return Section(
        title="What did training come to?",
        summary=_summary(answer),
        facts=list(train_rows(answer)),
        figures=[*_curves(answer), *_rates(answer), *_epochs(answer)],
    )


def circumstances(answer: TrainAnswer) -> tuple[object, ...]:
    """A folder holds one run."""
    return ()


def _summary(answer: TrainAnswer) -> str:
    reached = f"a score of {answer.final_score:.4g}" if answer.final_score is not None else "its end"
    if answer.final_score is None and answer.final_loss is not None:
        reached = f"a loss of {answer.final_loss:.4g}"
    updates = f"{answer.num_steps:,} updates and {format_seconds(answer.train_seconds)}"
    target = (
        "" if answer.seconds_to_target is None else f"; the target after {format_seconds(answer.seconds_to_target)}"
    )
    chance = ", which never left chance" if answer.left_chance is False else ""
    return f"Training reached {reached}{chance} after {updates}{target}."


def _curves(answer: TrainAnswer) -> Iterable[Figure]:
    for name in ("loss", "score"):
        series = [*_evaluated(answer, name, "validation"), *(_training(answer) if name == "loss" else [])]
        aimed = answer.target is not None and answer.target[0] == name
        if series:
            yield Figure(
                name=f"train-{name}",
                title=f"{name.capitalize()} over the run",
                x=Axis(label="time", unit="seconds"),
                y=Axis(label=name),
                series=series,
                marks=[Mark(axis="y", value=answer.target[1], label="target")] if aimed and answer.target else [],
            )


def _training(answer: TrainAnswer) -> list[Series]:
    """Losses of the updates; answers made before they were kept have their means between evaluations."""
    if not answer.curve:
        return _evaluated(answer, "train_loss", "training")
    return [Series(name="training", x=answer.curve["seconds"], y=list(answer.curve["loss"]))]


def _evaluated(answer: TrainAnswer, key: str, title: str) -> list[Series]:
    points = [(found["seconds"], found[key]) for found in answer.evaluations]
    known = any(value is not None for _, value in points)
    return [Series(name=title, x=[at for at, _ in points], y=[value for _, value in points])] if known else []


def _rates(answer: TrainAnswer) -> Iterable[Figure]:
    if answer.curve:
        yield Figure(
            name="train-rate",
            title="Learning rate over the run",
            x=Axis(label="update"),
            y=Axis(label="learning rate"),
            series=[Series(name="rate", x=answer.curve["step"], y=list(answer.curve["rate"]))],
        )


def _epochs(answer: TrainAnswer) -> Iterable[Figure]:
    """Seconds an epoch took, its evaluation included, between one evaluation and the next (thesis figure 3.1)."""
    points = [(0.0, 0.0)] + [(found["epoch"], found["seconds"]) for found in answer.evaluations]
    if answer.resumed_from is not None:
        points = points[1:]
    took = [(end[0], (end[1] - start[1]) / (end[0] - start[0])) for start, end in pairwise(points) if end[0] > start[0]]
    if took:
        yield Figure(
            name="train-epochs",
            title="Time of each epoch",
            x=Axis(label="epoch"),
            y=Axis(label="time of an epoch", unit="seconds"),
            series=[Series(name="epoch", x=[epoch for epoch, _ in took], y=[seconds for _, seconds in took])],
        )


STOPPED = {
    "finished": "the run is complete",
    "target": "target reached",
    "patience": "no gain for as long as patience allows",
    "budget": "its seconds are spent",
    "interrupted": "interrupted; --resume goes on",
}


def print_train(console: Console, answer: TrainAnswer) -> None:
    """What the run came to, and how it got there."""
    print_title(console, answer, answer.device)
    print_rows(console, train_rows(answer))
    if answer.evaluations:
        _print_evaluations(console, answer.evaluations)
    print_remarks(console, answer)


def _print_evaluations(console: Console, evaluations: Sequence[Any]) -> None:
    table = Grid("update", "epoch", "seconds", "training loss", "validation loss", "score", title_justify="left")
    for found in _thinned(evaluations):
        values = [found["train_loss"], found["loss"], found["score"]]
        cells = ["" if value is None else f"{value:.5g}" for value in values]
        table.add_row(f"{found['step']:,}", f"{found['epoch']:.4g}", f"{found['seconds']:.1f}", *cells)
    console.print()
    console.print(table)


def train_rows(answer: TrainAnswer) -> Iterable[Row]:
    """What the run came to, a fact a row."""
    yield "ended", STOPPED[answer.stopped_because], f"{answer.num_steps:,} updates, {answer.num_epochs:.4g} epochs"
    if answer.final_score is not None:
        yield "score", f"{answer.final_score:.5g}", f"best {answer.best_score:.5g}{_chance_words(answer)}"
    if answer.final_loss is not None:
        yield "loss", f"{answer.final_loss:.5g}", ""
    if answer.seconds_to_target is not None:
        yield "time to target", format_seconds(answer.seconds_to_target), "start-up left out"
    if answer.cooldowns:
        yield "cooldowns", f"{len(answer.cooldowns)} tried", f"{answer.num_missed_steps:,} updates of those that missed"
    yield "speed", f"{answer.samples_per_second:,.0f} samples/s", f"{answer.data_wait_share:.0%} waiting for batches"
    if answer.checkpoint is not None:
        yield "checkpoint", answer.checkpoint, ""


def _chance_words(answer: TrainAnswer) -> str:
    if answer.chance is None:
        return ""
    return f"; {'never left ' if answer.left_chance is False else ''}chance {answer.chance:.4g}"


def _thinned(items: Sequence[Any], most: int = 20) -> Sequence[Any]:
    """Every so-manyth item, the last always among them."""
    stride = -(-len(items) // most) or 1
    return [item for place, item in enumerate(items) if (len(items) - 1 - place) % stride == 0]


VIEW = View(answer=TrainAnswer, print=print_train, section=section, circumstances=circumstances)
