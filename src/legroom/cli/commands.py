"""Builds a command from a question's folder: its own words, the shared options around them, and one body for all."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import typer

from legroom.cli import common, options, several
from legroom.questions import part_of

Given = Mapping[str, Any]
"""All that the command line said, by the names of its parameters."""
Words = dict[str, Any]
"""What the question's function in the api is called with."""


def command_of(question: str) -> Callable[..., None]:
    """The command that asks the question.

    The question's `command.py` has a function `words`, whose parameters are its own options and whose docstring is the
    help; it returns what to call the question's function with. SHARED names the shared options it takes. SEVERAL, a
    word and how to read one value, lets that option name several values with commas.
    """
    command = part_of(question, "command")
    assert command is not None, f"legroom.questions.{question} has no command.py"
    shared = getattr(command, "SHARED", options.OF_QUESTIONS)
    own = inspect.signature(command.words).parameters

    def run(**given: Any) -> None:
        with common.speaking(json=given["json"], debug=given["debug"], resumes="resume" in shared):
            about, words = _about(given), command.words(**{name: given[name] for name in own})
            each = several.split(words, *command.SEVERAL) if hasattr(command, "SEVERAL") else [words]
            _answer(question, [about | words for words in each], given)

    parameters = [*_shared(options.of_the_job, shared), *own.values(), *_shared(options.of_the_run, shared)]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__doc__ = command.words.__doc__
    return run


def _shared(listed: Callable[..., None], names: Sequence[str]) -> list[inspect.Parameter]:
    return [parameter for name, parameter in inspect.signature(listed).parameters.items() if name in names]


def _about(given: Given) -> Words:
    """The job and the device, as the functions of the api take them."""
    about = {name: given[name] for name in ("job", "device") if name in given}
    return about | ({"options": common.options_of(given["with_"], given["data"])} if "job" in given else {})


def _answer(question: str, asked: Sequence[Words], given: Given) -> None:
    """Ask for each of the words, with progress, and print; or print what asking would take."""
    from legroom.reports.terminal import print_foreseen
    from legroom.reports.views import views

    if given.get("dry_run"):
        common.print_answer(_foresee(question, asked, given), print_foreseen, json=given["json"])
        return
    ask = getattr(part_of(question, "ask"), question)
    with _running(given) as run:
        found = several.ask_each(asked, run, lambda words, run: ask(**words, **({"run": run} if run else {})))
    several.print_answers(found, views()[question].print, alone=len(asked) == 1, json=given["json"])
    _end(found[0][-1], asked[0], given)


def _foresee(question: str, asked: Sequence[Words], given: Given) -> Any:
    from legroom.session import Run

    foresee = part_of(question, "ask").foresee  # type: ignore[union-attr]
    known = inspect.signature(foresee).parameters
    words = {name: word for name, word in asked[0].items() if name in known}
    return several.for_each(foresee(run=Run(out=given["out"]), **words), len(asked))


@contextmanager
def _running(given: Given) -> Iterator[Any]:
    """How to ask, with a bar on the terminal; None for questions that start nothing."""
    if "timeout" not in given:
        yield None
        return
    from legroom.session import Run

    more = {name: given[name] for name in ("out", "resume", "seed", "timeout") if name in given}
    with common.interruptible(), common.progress_bar(quiet=given["quiet"]) as progress:
        if not given["quiet"]:
            more |= {"found": common.say, "tell": common.say}
        yield Run(progress=progress, **more)


def _end(answer: Any, words: Words, given: Given) -> None:
    """Say which files were written; leave with the answer's own code."""
    if "job" in given:
        from legroom.reports.page import report_path

        for path in (report_path(words["job"], words["options"], given["out"]), *answer.files):
            common.print_written(path, json=given["json"], quiet=given["quiet"])
    if answer.exit_code:
        raise typer.Exit(answer.exit_code)
