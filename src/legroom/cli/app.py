"""All commands: one for each question, `legroom report` and `legroom jobs`."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from legroom.cli import common, options
from legroom.cli.commands import command_of
from legroom.questions import QUESTIONS

WRONG_WORDS: type[Any] = typer.BadParameter.__mro__[1]
"""What typer raises for words that it cannot read; which package has that class depends on its version."""


class Commands(TyperGroup):
    """Keeps the promise of --json where the words of a command cannot be read, too."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Note whether it was asked for."""
        ctx.meta["json"] = "--json" in args
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; typer says on stderr what is wrong with its words."""
        try:
            return super().invoke(ctx)
        except WRONG_WORDS as error:
            if ctx.meta["json"]:
                common.print_json({"error": error.format_message(), "error_type": "UsageError"})
            raise


app = typer.Typer(
    name="legroom",
    cls=Commands,
    help="Finds the room a PyTorch training run has: measured, explained, proved.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from legroom import __version__

        typer.echo(f"legroom {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
) -> None:
    """Finds the room a PyTorch training run has: measured, explained, proved."""


for name in QUESTIONS:
    app.command(name=name)(command_of(name))


@app.command()
def report(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Folders that legroom commands wrote with --out.")
    ],
    json: options.Json = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """Write report.html anew from a saved folder, or comparison.html from several, into the first of them.

    Measures nothing; --json prints all that the page shows.
    """
    with common.speaking(json=json, debug=debug, resumes=False):
        from legroom import api

        page, path = api.report(*folders)
        if json:
            common.print_json({"report": str(path), **asdict(page)})
        common.print_written(path, json=json, quiet=quiet)


@app.command()
def jobs(data: options.Data = None, json: options.Json = False, debug: options.Debug = False) -> None:
    """Which jobs are built in: their options, number of parameters, and data."""
    with common.speaking(json=json, debug=debug, resumes=False):
        from legroom import api

        common.check_data(data)
        workloads = api.jobs(data)
        if json:
            common.print_json({"jobs": [asdict(workload) for workload in workloads]})
            return
        from legroom.reports.terminal import PlainConsole, print_jobs

        print_jobs(PlainConsole(), workloads)
