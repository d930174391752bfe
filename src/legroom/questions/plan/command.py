"""Words of `legroom plan`."""

from typing import Annotated, Any

import typer

from legroom.cli import options
from legroom.units import parse_price, parse_seconds


def words(
    goal: Annotated[str, typer.Option(help="fastest, cheapest, or frugal: the least energy.")] = "fastest",
    target: Annotated[
        str,
        typer.Option(metavar="NAME=VALUE", help="score=0.97, loss=1.5, or same: what the job's own settings reach."),
    ] = "same",
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Time the plan may take, such as 10min. (default: 5min; half a run of a job that takes 2 to 10 min)",
        ),
    ] = None,
    price: Annotated[
        str | None, typer.Option(metavar="PRICE", help="Of the device's hour, such as 2.5/h: tells what the run costs.")
    ] = None,
    devices: Annotated[
        str, typer.Option(metavar="N|N,N|all", help="Devices to choose among: 4; 1,2,4; or all that are here.")
    ] = "1",
    link: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Between devices that are not here: 10GbE, nvlink, ... or 25Gb/s,20us."),
    ] = None,
    offers: Annotated[
        str | None,
        typer.Option(metavar="LIST", help="Cards and prices, as h100=2.9/h,l4=0.7/h: what the run would take there."),
    ] = None,
    model_sizes: Annotated[
        str | None,
        typer.Option(metavar="NAME=N,N,...", help="Of the job's resize, to choose among: width=32,64; depth=1,2."),
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Samples of a pass; the rest is found for it. (default: found too)")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Ask all anew; leave answers in the folder alone.")] = False,
    code: Annotated[
        str | None,
        typer.Option(metavar="LIBRARY", help="Print it as code: pytorch, lightning, transformers, accelerate."),
    ] = None,
    memory: options.Memory = None,
    card: options.Card = None,
    precision: options.Precision = None,
) -> dict[str, Any]:
    """What should I run? Finds batch, rate, schedule, length and workers, tells the time to the target."""
    named = {"goal": goal, "target": target, "budget": None if budget is None else parse_seconds(budget)}
    return {
        **named,
        "batch_size": batch_size,
        "price": None if price is None else parse_price(price),
        "devices": devices,
        "link": link,
        "offers": offers,
        "model_sizes": model_sizes,
        "code": code,
        "fresh": fresh,
        "memory": memory,
        "card": card,
        "precision": precision,
    }
