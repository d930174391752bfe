"""A training run in a terminal."""

from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from legroom.advisors.train import TrainAnswer
from legroom.reports.console.layout import Row, print_remarks, print_rows, print_title
from legroom.units import format_seconds

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
    table = Table("update", "epoch", "seconds", "training loss", "validation loss", "score", title_justify="left")
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
