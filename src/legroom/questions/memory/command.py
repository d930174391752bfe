"""Words of `legroom memory`."""

from typing import Annotated, Any

import typer

from legroom.cli import options
from legroom.units import parse_bytes

SEVERAL = ("memory", parse_bytes)


def words(
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE,...",
            help="Memory the job may use, such as 1GiB; several are asked in turn. (default: 90 % of what is free)",
        ),
    ] = None,
    card: options.Card = None,
    precision: options.Precision = None,
    effective_batch: Annotated[
        int | None,
        typer.Option(metavar="N", help="Samples of an update you want; tells the batch and the passes that give it."),
    ] = None,
    devices: Annotated[
        int, typer.Option(metavar="N", help="Devices that train together: each holds buckets of gradients too.")
    ] = 1,
    rule: Annotated[
        str, typer.Option(metavar="NAME", help="legroom; or thesis: a line through two probes.")
    ] = "legroom",
) -> dict[str, Any]:
    """How large a batch fits? Proved in a fresh process."""
    named = {"memory": memory, "card": card, "precision": precision, "effective_batch": effective_batch}
    return {**named, "num_devices": devices, "rule": rule}
