"""One command that asks its question for several values: `--memory 8GiB,16GiB`, `--batch-size 32,256`."""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from legroom.cli import common
from legroom.errors import NothingMeasured, OutOfMemory, UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from legroom.session import Run

Value = TypeVar("Value")


def split(words: dict[str, Any], name: str, read: Callable[[str], int]) -> list[dict[str, Any]]:
    """The words of a question for each value that the word of that name lists."""
    values = values_of(f"--{name.replace('_', '-')}", words[name], read)
    return [{**words, name: value} for value in values]


def values_of(option: str, words: str | None, read: Callable[[str], int]) -> Sequence[int | None]:
    """The values of a list with commas, largest first; [None] where none was named.

    The largest is asked first: what is too large for the data or the machine is refused before anything is measured.
    """
    if words is None:
        return [None]
    values = [_value(option, word.strip(), read) for word in words.split(",")]
    if len(set(values)) < len(values):
        raise UsageError(f"{option} {words} names a value twice. Name each once")
    return sorted(values, reverse=True)


def _value(option: str, word: str, read: Callable[[str], int]) -> int:
    if not word:
        raise UsageError(f"{option} has an empty place between its commas. Name a value there or leave the comma out")
    value = read(word)
    if value < 1:
        raise UsageError(f"{option} names {word}; it must be at least 1")
    return value


def whole_number(word: str) -> int:
    """The number a person means."""
    try:
        return int(word)
    except ValueError:
        raise UsageError(f"{word!r} is no whole number. Write one such as 32, or several with commas: 32,256") from None


def ask_each(values: Sequence[Value], run: "Run", ask: Callable[[Value, "Run"], Any]) -> tuple[list[Any], list[str]]:
    """The answers in the order of the values, and a sentence for each value that has none; they share records."""
    if len(values) == 1:
        return [ask(values[0], run)], []
    run = replace(run, together=uuid.uuid4().hex[:12])
    answers, missing = [], []
    for place, value in enumerate(values):
        try:
            answers.append(ask(value, replace(run, progress=_part(run, place, len(values)))))
        except (NothingMeasured, OutOfMemory) as error:
            missing.append(str(error))
            if len(missing) == len(values):
                raise
    return answers, missing


def _part(run: "Run", place: int, num_parts: int) -> Callable[[str, float], None]:
    """Progress of one question as part of all."""
    return lambda what, share: run.progress(f"{place + 1} of {num_parts}: {what}", (place + share) / num_parts)


def print_answers(
    found: tuple[list[Any], list[str]], printer: Callable[["Console", Any], None], *, alone: bool, json: bool
) -> None:
    """One answer as ever; several from the smallest value on, then what compares them."""
    answers, missing = found
    if alone:
        common.print_answer(answers[0], printer, json=json)
    elif json:
        from legroom.reports.views import to_json_together

        common.print_json(to_json_together(answers, missing))
    else:
        from legroom.reports.terminal import print_several

        print_several(answers, missing, printer)


def for_each(foreseen: Any, num_values: int) -> Any:
    """What is foreseen for one value, with a note on how many there are."""
    note = f"This is for one of {num_values} values; what they have in common is measured once"
    return replace(foreseen, notes=[*foreseen.notes, *([note] if num_values > 1 else [])])
