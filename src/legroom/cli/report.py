"""`legroom report`: write the page anew from a saved folder."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from legroom.cli import common, options


def run(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder that a legroom command wrote with --out.")],
    json: options.Json = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """Write report.html anew from a saved folder. Measures nothing; --json prints all that the page shows."""
    with common.speaking(json=json, debug=debug, resumes=False):
        from legroom import api

        page, path = api.report(folder)
        if json:
            common.print_json({"report": str(path), **asdict(page)})
        common.print_written(path, json=json, quiet=quiet)
