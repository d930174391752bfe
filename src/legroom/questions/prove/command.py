"""Words of `legroom prove`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from legroom.units import parse_price


def words(
    plan: Annotated[Path | None, typer.Option(metavar="FILE", help="The plan.toml to prove.")] = None,
    against: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="default: the job's own settings; sweep: the best of legroom sweep in --out; or a plan.toml.",
        ),
    ] = "default",
    target: Annotated[
        str | None, typer.Option(metavar="NAME=VALUE", help="score=0.97 or loss=0.1. (default: the plan's)")
    ] = None,
    seeds: Annotated[int, typer.Option(metavar="N", help="Fresh seeds that both are trained with.")] = 3,
    evaluate_samples: Annotated[
        int | None, typer.Option(metavar="N", help="Samples between evaluations, in both. (default: at most an epoch)")
    ] = None,
    only_target: Annotated[
        bool, typer.Option("--only-target", help="End every run at the target; compare nothing after as many seconds.")
    ] = False,
    price: Annotated[
        str | None, typer.Option(metavar="PRICE", help="Of a device's hour, as 2.5/h: what both pay to the target.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Use a plan of another job or machine.")] = False,
) -> dict[str, Any]:
    """Did the plan pay? Trains it and its rival to the same target, in turn, with fresh seeds."""
    named = {"plan": plan, "against": against, "target": target, "seeds": seeds, "evaluate_samples": evaluate_samples}
    money = {"price": None if price is None else parse_price(price)}
    return {**named, **money, "equal_time": not only_target, "force": force}
