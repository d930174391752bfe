"""Words of `legroom speed`."""

from typing import Annotated, Any

import typer

from legroom.cli import options
from legroom.errors import UsageError


def words(
    batch_sizes: Annotated[
        str | None,
        typer.Option(metavar="N,N,...", help="Sizes to time. (default: chosen from 1 to the largest that fits)"),
    ] = None,
    rule: Annotated[
        str, typer.Option(metavar="NAME", help="By what a batch pays: throughput, or utilisation of the device.")
    ] = "throughput",
    share: Annotated[
        float, typer.Option(metavar="SHARE", help="Of the best, that the recommended batch must reach.")
    ] = 0.9,
    seconds: Annotated[float, typer.Option(metavar="SECONDS", help="For the repeats, all sizes together.")] = 15.0,
    precision: options.Precision = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Look at each size once: seconds instead of a minute.")
    ] = False,
) -> dict[str, Any]:
    """Where does a larger batch stop paying? Is the device busy?"""
    sizes = _sizes_of(batch_sizes)
    given = {"rule": rule, "share": share, "seconds": seconds, "precision": precision, "quick": quick}
    return {"batch_sizes": sizes, **given}


def _sizes_of(words: str | None) -> list[int]:
    """The sizes of `--batch-sizes 8,16,24`."""
    try:
        return [int(word) for word in words.split(",")] if words is not None else []
    except ValueError:
        raise UsageError(f"--batch-sizes {words} cannot be read. Write whole numbers with commas: 8,16,24") from None
