"""Words of `legroom explain`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from legroom.cli import options

SHARED = options.OF_ALL


def words(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="The plan.toml in question.")],
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A setting of it, such as batch_size.")] = None,
) -> dict[str, Any]:
    """Why does a plan say so? The numbers behind each setting, from what lies beside it. Measures nothing."""
    return {"plan": plan, "name": name}
