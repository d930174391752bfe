"""Words of `legroom devices`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from legroom.cli import options
from legroom.errors import UsageError


def words(
    batch_size: Annotated[
        int | None, typer.Option(help="Per device in weak scaling, global in strong scaling. (default: the job's own)")
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
        typer.Option(metavar="NAME", help="Forecast for 10GbE, nvlink, ... or 25Gb/s,20us. (default: measured here)"),
    ] = None,
    rule: Annotated[str, typer.Option(help="legroom; or local-peak: batch per device at peak, then only N grows.")] = (
        "legroom"
    ),
    speeds: Annotated[
        str | None, typer.Option(metavar="S,S,...", help="Speeds of unequal devices, relative to the one here.")
    ] = None,
    price: Annotated[float | None, typer.Option(help="Of one device for an hour.")] = None,
    precision: options.Precision = None,
    from_table: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Published times (CSV) in place of a job.")
    ] = None,
) -> dict[str, Any]:
    """What do more devices give, and what goes over the wire?"""
    if strong and weak:
        raise UsageError("--strong and --weak each leave the other out; give one, or none for both")
    given = {"batch_size": batch_size, "most": most, "measured": measured, "link": link, "rule": rule, "price": price}
    scaling = "strong" if strong else "weak" if weak else None
    more = {"scaling": scaling, "speeds": _speeds_of(speeds), "precision": precision, "from_table": from_table}
    return {**given, **more}


def _speeds_of(words: str | None) -> list[float]:
    """The speeds of `--speeds 1,1,0.6`."""
    try:
        return [float(word) for word in words.split(",")] if words is not None else []
    except ValueError:
        raise UsageError(f"--speeds {words} cannot be read. Write numbers with commas: 1,1,0.6") from None
