"""Translates words to calls of `legroom.api`, and answers to text; nothing more."""


def main() -> None:
    """The `legroom` command."""
    # Imported here: it imports the words of every question, and those import the options of this package.
    from legroom.cli.app import app
    from legroom.cli.streams import outlast_terminal

    outlast_terminal()
    app()
