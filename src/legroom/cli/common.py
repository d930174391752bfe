"""What all commands share: progress, printing, and errors as sentences with exit codes."""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from legroom.errors import LegroomError, NothingMeasured, UsageError
from legroom.texts import json_text, printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

LEAP = 0.1
"""Share of the work that nobody does between two messages."""


@contextmanager
def speaking(*, json: bool, debug: bool, resumes: bool = True) -> Iterator[None]:
    """Turn errors into a sentence on stderr (and an object on stdout with --json) and an exit code.

    `resumes`: the command has --resume.
    """
    try:
        yield
    except LegroomError as error:
        _say(error, str(error), error.details, json=json, debug=debug, facts=error.facts)
        raise typer.Exit(error.exit_code) from None
    except KeyboardInterrupt:
        kept = " What was measured is kept; --resume goes on from there." if resumes else ""
        say(f"Stopped.{kept}")
        raise typer.Exit(130) from None
    except (typer.Exit, typer.Abort):
        raise
    except Exception as error:
        if debug:
            raise
        message = f"legroom itself failed: {type(error).__name__}: {error}. --debug shows where; please report it"
        _say(error, message, "", json=json, debug=False)
        raise typer.Exit(NothingMeasured.exit_code) from None


def _say(
    error: Exception, message: str, details: str, *, json: bool, debug: bool, facts: dict[str, Any] | None = None
) -> None:
    if json:
        print_json({"error": message, "error_type": type(error).__name__, **(facts or {})})
    say(f"legroom: {message}")
    if debug and details:
        say(details)
    elif details and not isinstance(error, UsageError):
        say("(--debug shows what the job printed or where it failed)")


def say(text: str) -> None:
    """A line on stderr. Texts come from jobs and file names: what would command the terminal is left out."""
    typer.echo(printable(text), err=True)


def options_of(words: list[str], data: Path | None = None) -> dict[str, str]:
    """The options of `--with name=value`; `--data DIR` is short for `--with data=DIR`."""
    for word in words:
        if "=" not in word or word.startswith("="):
            raise UsageError(f"--with {word} has no value. Write --with name=value")
    check_data(data)
    return dict(word.split("=", 1) for word in words) | ({"data": str(data.resolve())} if data else {})


def check_data(data: Path | None) -> None:
    """Refuse what is no folder of data sets."""
    if data is not None and not data.is_dir():
        raise UsageError(f"--data {data} is no folder. Name the one that holds the data sets")


def print_json(value: dict[str, Any]) -> None:
    """One JSON object on stdout."""
    sys.stdout.write(json_text(value) + "\n")


def print_answer(answer: Any, printer: Callable[["Console", Any], None], *, json: bool) -> None:
    """The answer as JSON, or as the printer draws it."""
    from legroom.reports.views import to_json

    if json:
        print_json(to_json(answer))
    else:
        from legroom.reports.terminal import PlainConsole

        printer(PlainConsole(), answer)


def print_written(path: Path, *, json: bool, quiet: bool) -> None:
    """Say on stderr where the report is."""
    if not json and not quiet and path.is_file():
        say(f"Wrote {path}")


@contextmanager
def interruptible() -> Iterator[None]:
    """Take SIGTERM, and SIGHUP of a terminal that is gone, as Ctrl-C: each lets a run save before it ends."""

    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    known = [number for name in ("SIGTERM", "SIGHUP") if (number := getattr(signal, name, None))]  # Windows has one
    heard = [number for number in known if signal.getsignal(number) is not signal.SIG_IGN]  # nohup ignores SIGHUP
    before = {number: signal.signal(number, interrupt) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def progress_bar(*, quiet: bool) -> Iterator[Callable[[str, float], None]]:
    """A bar with an estimate of what is left on stderr, where that is a terminal."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    from legroom.reports.terminal import PlainConsole

    console = PlainConsole(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda message, share: None
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=1.0)
        yield lambda message, share: show_progress(bar, task, message, share)


def show_progress(bar: "Progress", task: "TaskID", message: str, share: float) -> None:
    """Move the bar; a leap was paid for by an earlier run, so the estimate of what is left counts from there."""
    shown = bar.tasks[task]
    if share - shown.completed > LEAP:
        began = shown.start_time
        bar.reset(task)
        shown.start_time, shown.completed = began, share
    bar.update(task, description=message, completed=share)
