"""Translates words to calls of `legroom.api`, and answers to text; nothing more. One command a file."""

import typer

from legroom.cli import jobs, loading, machine, memory, plan, report, speed, train, vocabulary

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


for command in (memory, speed, loading, plan, train, report, vocabulary, machine, jobs):
    app.command(name=command.__name__.rpartition(".")[2])(command.run)


def main() -> None:
    """The `legroom` command."""
    app()
