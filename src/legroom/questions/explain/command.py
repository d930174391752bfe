"""Words of `legroom explain`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from legroom.cli import options

SHARED = options.OF_ALL


def words(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="The plan.toml in question.")],
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A setting of it, such as batch_size.")] = None,
    offers: Annotated[
        str | None,
        typer.Option(metavar="LIST", help="Cards and prices, as h100=2.9/h,l4=0.7/h: what the run would take there."),
    ] = None,
) -> dict[str, Any]:
    """Why does a plan say so? The numbers behind each setting, from what lies beside it. Measures nothing."""
    return {"plan": plan, "name": name, "offers": offers}
