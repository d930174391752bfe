"""Words of `legroom check`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from legroom.cli import options

SHARED = (*(name for name in options.OF_MACHINES if name != "device"), "out", "resume", "seed")


def words(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="The plan.toml to check.")],
    of_job: Annotated[
        str | None, typer.Option("--job", metavar="JOB", help="The job. (default: the one that the plan names)")
    ] = None,
    data: options.Data = None,
    device: options.Device = "auto",
    force: Annotated[bool, typer.Option("--force", help="Check a plan of another job or machine.")] = False,
) -> dict[str, Any]:
    """Does a plan still hold, after torch, the driver or the model changed? Exit code 1 where it does not."""
    more = {"data": str(data.resolve())} if data else None
    return {"plan": plan, "job": of_job, "options": more, "device": device, "force": force}
