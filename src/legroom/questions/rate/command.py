"""Words of `legroom rate`."""

from typing import Annotated, Any

import typer

from legroom.cli import options
from legroom.units import parse_seconds

SHARED = options.OF_JOBS


def words(
    batch_size: Annotated[int | None, typer.Option(help="Samples of an update. (default: the job's own)")] = None,
    target: Annotated[
        str,
        typer.Option(metavar="NAME=VALUE", help="score=0.97, loss=1.5, or same: what the job's own settings reach."),
    ] = "same",
    method: Annotated[str, typer.Option(help="auto.")] = "auto",
    budget: Annotated[str, typer.Option(metavar="TIME", help="Time the search may take, such as 2min.")] = "2min",
    seeds: Annotated[int, typer.Option(help="Runs that the winner is confirmed on.")] = 3,
    fraction: Annotated[float, typer.Option(help="Share of the training data to search on.")] = 1.0,
    precision: options.Precision = None,
) -> dict[str, Any]:
    """Which learning rate, and how many updates to the target?"""
    named = {"batch_size": batch_size, "target": target, "method": method, "budget": parse_seconds(budget)}
    return {**named, "seeds": seeds, "fraction": fraction, "precision": precision}
