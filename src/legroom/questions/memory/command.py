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
        int | None, typer.Option(help="Batch you want; prints the micro-batch and accumulation that give it.")
    ] = None,
    devices: Annotated[int, typer.Option(help="Data-parallel devices: each also holds buckets of gradients.")] = 1,
    rule: Annotated[str, typer.Option(help="legroom; or thesis: a line through two probes.")] = "legroom",
) -> dict[str, Any]:
    """How large a batch fits? Proved in a fresh process."""
    named = {"memory": memory, "card": card, "precision": precision, "effective_batch": effective_batch}
    return {**named, "num_devices": devices, "rule": rule}
