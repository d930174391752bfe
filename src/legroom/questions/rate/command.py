"""Words of `legroom rate`."""

from typing import Annotated, Any

import typer

from legroom.cli import options
from legroom.units import parse_seconds

TRANSFER = "Options of --method transfer"


def words(
    batch_size: Annotated[
        int | None, typer.Option(metavar="N", help="Samples of an update. (default: the job's own)")
    ] = None,
    target: Annotated[
        str,
        typer.Option(metavar="NAME=VALUE", help="score=0.97, loss=1.5, or same: what the job's own settings reach."),
    ] = "same",
    method: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="auto: trainings at a few rates side by side; range: a ramp of the rate; greedy: decades, then "
            "multiples; transfer: a rate known at another batch size, carried to --batch-size.",
        ),
    ] = "auto",
    rule: Annotated[
        str,
        typer.Option(
            metavar="NAME", rich_help_panel=TRANSFER, help="How to carry it: measured, linear, sqrt, legw or adam."
        ),
    ] = "measured",
    compare_rules: Annotated[
        bool,
        typer.Option("--compare-rules", rich_help_panel=TRANSFER, help="Run all rules, LARS and LAMB side by side."),
    ] = False,
    from_batch: Annotated[
        int | None,
        typer.Option(
            metavar="N", rich_help_panel=TRANSFER, help="The batch size whose rate is known. (default: the job's own)"
        ),
    ] = None,
    from_rate: Annotated[
        float | None,
        typer.Option(
            metavar="RATE", rich_help_panel=TRANSFER, help="The rate known to be good there. (default: the job's own)"
        ),
    ] = None,
    budget: Annotated[str, typer.Option(metavar="TIME", help="Time the search may take, such as 2min.")] = "2min",
    seeds: Annotated[int, typer.Option(metavar="N", help="Seeds to confirm the winner with, or to ramp.")] = 3,
    fraction: Annotated[
        float,
        typer.Option(metavar="SHARE", help="Of the training data, to search on; the answer is tried on all of it."),
    ] = 1.0,
    precision: options.Precision = None,
    num_workers: Annotated[
        int | None, typer.Option("--workers", metavar="N", help="Loader processes of trials. (default: the job's own)")
    ] = None,
) -> dict[str, Any]:
    """Which learning rate, and how many updates to the target?"""
    named = {"batch_size": batch_size, "target": target, "method": method, "budget": parse_seconds(budget)}
    carried = {"rule": rule, "compare_rules": compare_rules, "from_batch": from_batch, "from_rate": from_rate}
    return {
        **named,
        **carried,
        "seeds": seeds,
        "fraction": fraction,
        "precision": precision,
        "num_workers": num_workers,
    }
