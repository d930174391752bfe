"""Translates words to calls of `legroom.api`, and answers to text; nothing more. One command a file."""

import typer

from legroom.cli import jobs, report
from legroom.cli.commands import command_of
from legroom.questions import QUESTIONS

app = typer.Typer(
    name="legroom",
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


for name, command in ((name, command_of(name)) for name in QUESTIONS):
    if command is not None:
        app.command(name=name)(command)
app.command(name="report")(report.run)
app.command(name="jobs")(jobs.run)


def main() -> None:
    """The `legroom` command."""
    app()
