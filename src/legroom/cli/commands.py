"""Builds a command from a question's folder: its own words, the shared options around them, and one body for all."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from types import ModuleType
from typing import Any

import typer

from legroom.cli import common, options, several
from legroom.questions import part_of

Given = Mapping[str, Any]
"""All that the command line said, by the names of its parameters."""


def command_of(question: str) -> Callable[..., None] | None:
    """The command that asks the question; None where it has no words of its own."""
    command = part_of(question, "command")
    if command is None:
        return None
    shared = getattr(command, "SHARED", options.OF_QUESTIONS)
    own = inspect.signature(command.words).parameters

    def run(**given: Any) -> None:
        with common.speaking(json=given["json"], debug=given["debug"], resumes="resume" in shared):
            words = command.words(**{name: given[name] for name in own})
            _answer(question, command, words, given)

    around = [_parameters(options.of_the_job, shared), _parameters(options.of_the_run, shared)]
    parameters = [*around[0], *own.values(), *around[1]]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__doc__ = command.words.__doc__
    return run


def _parameters(listed: Callable[..., None], shared: Sequence[str]) -> list[inspect.Parameter]:
    return [parameter for name, parameter in inspect.signature(listed).parameters.items() if name in shared]


def _answer(question: str, command: ModuleType, words: dict[str, Any], given: Given) -> None:
    """Ask, with progress, and print; what belongs to a job is left out where there is none."""
    from legroom.reports.terminal import print_foreseen
    from legroom.reports.views import views

    name, read = getattr(command, "SEVERAL", ("", int))
    values = several.values_of(f"--{name.replace('_', '-')}", words.pop(name), read) if name else [None]
    about = _about(given)
    if given.get("dry_run"):
        foreseen = several.for_each(_foresee(question, {**about, **words, name: values[0]}, given), values)
        common.print_answer(foreseen, print_foreseen, json=given["json"])
        return
    ask = getattr(part_of(question, "ask"), question)
    with ExitStack() as stack:
        run = _run(stack, given)
        asked = {**about, **words, **({"run": run} if run else {})}
        found = several.ask_each(values, run, lambda value, run: ask(**_with(asked, name, value, run)))
    several.print_answers(found, views()[question].print, alone=len(values) == 1, json=given["json"])
    _end(found[0][-1], about, given)


def _about(given: Given) -> dict[str, Any]:
    """The job and the device, as the functions of the api take them."""
    about = {name: given[name] for name in ("job", "device") if name in given}
    return about | ({"options": common.options_of(given["with_"], given["data"])} if "job" in given else {})


def _foresee(question: str, words: dict[str, Any], given: Given) -> Any:
    from legroom.session import Run

    foresee = part_of(question, "ask").foresee  # type: ignore[union-attr]
    known = inspect.signature(foresee).parameters
    return foresee(run=Run(out=given["out"]), **{name: word for name, word in words.items() if name in known})


def _run(stack: ExitStack, given: Given) -> Any:
    """How to ask, with a bar on the terminal; None for questions that start nothing."""
    if "timeout" not in given:
        return None
    from legroom.session import Run

    stack.enter_context(common.interruptible())
    progress = stack.enter_context(common.progress_bar(quiet=given["quiet"]))
    more = {name: given[name] for name in ("out", "resume", "seed", "timeout") if name in given}
    return Run(progress=progress, tell=common.say, **more)


def _with(asked: dict[str, Any], name: str, value: Any, run: Any) -> dict[str, Any]:
    return asked | ({name: value} if name else {}) | ({"run": run} if run else {})


def _end(answer: Any, about: dict[str, Any], given: Given) -> None:
    """Say which files were written; leave with the answer's own code."""
    if "job" in given:
        from legroom.reports.page import report_path

        paths = [report_path(about["job"], about["options"], given["out"]), *answer.files]
        for path in paths:
            common.print_written(path, json=given["json"], quiet=given["quiet"])
    if answer.exit_code:
        raise typer.Exit(answer.exit_code)
