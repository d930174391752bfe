"""Words of `legroom devices`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from legroom.cli import options
from legroom.errors import UsageError
from legroom.units import parse_price


def words(
    batch_size: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Of each device in weak scaling, of all in strong scaling. (default: the job's own)"
        ),
    ] = None,
    most: Annotated[
        int | None, typer.Option("--max", metavar="N", help="Devices you may take. (default: those here)")
    ] = None,
    measured: Annotated[
        int | None,
        typer.Option("--measure", metavar="N", help="Devices to run together. (default: those here; 1 with --link)"),
    ] = None,
    strong: Annotated[bool, typer.Option("--strong", help="Only the same global batch on more devices.")] = False,
    weak: Annotated[bool, typer.Option("--weak", help="Only the same batch on each of more devices.")] = False,
    link: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Between devices, for a forecast: 10GbE, nvlink, ... or bandwidth and latency, as 25Gb/s,20us. "
            "(default: measured here)",
        ),
    ] = None,
    rule: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="legroom; or local-peak: the batch at which one device is fastest, on each of them."
        ),
    ] = "legroom",
    speeds: Annotated[
        str | None, typer.Option(metavar="S,S,...", help="Speeds of unequal devices, 1 as the one here.")
    ] = None,
    price: Annotated[
        str | None, typer.Option(metavar="PRICE", help="Of a device's hour, such as 2.5/h: tells what an epoch costs.")
    ] = None,
    precision: options.Precision = None,
    from_table: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Published times (CSV) in place of a job.")
    ] = None,
) -> dict[str, Any]:
    """What do more devices give, and what goes over the wire?"""
    if strong and weak:
        raise UsageError("--strong and --weak each leave the other out; give one, or none for both")
    return {
        "batch_size": batch_size,
        "most": most,
        "measured": measured,
        "scaling": "strong" if strong else "weak" if weak else None,
        "link": link,
        "rule": rule,
        "speeds": _speeds_of(speeds),
        "price": None if price is None else parse_price(price),
        "precision": precision,
        "from_table": from_table,
    }


def _speeds_of(words: str | None) -> list[float]:
    """The speeds of `--speeds 1,1,0.6`."""
    try:
        return [float(word) for word in words.split(",")] if words is not None else []
    except ValueError:
        raise UsageError(f"--speeds {words} cannot be read. Write numbers with commas: 1,1,0.6") from None
