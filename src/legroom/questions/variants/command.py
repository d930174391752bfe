"""Words of `legroom variants`."""

from typing import Annotated, Any

import typer

from legroom.cli import options
from legroom.units import parse_seconds


def words(
    batch_size: Annotated[
        int | None, typer.Option(metavar="N", help="Samples of a pass. (default: the job's own)")
    ] = None,
    only: Annotated[
        str | None, typer.Option(metavar="NAME,NAME,...", help="Of channels_last, bf16, fused, compile. (default: all)")
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(metavar="N", help="Updates of the run in which compiling must pay. (default: the job's own)"),
    ] = None,
    budget: Annotated[str, typer.Option(metavar="TIME", help="Time it may take, such as 2min.")] = "2min",
    precision: options.Precision = None,
) -> dict[str, Any]:
    """Do bf16, channels-last, a fused optimizer and torch.compile pay? And does it still learn?"""
    names = tuple(name.strip() for name in only.split(",")) if only is not None else ()
    named = {"batch_size": batch_size, "only": names, "num_steps": steps}
    return {**named, "budget": parse_seconds(budget), "precision": precision}
