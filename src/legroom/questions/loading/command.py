"""Words of `legroom loading`."""

from typing import Annotated, Any

import typer

from legroom.cli import options, several

SEVERAL = ("batch_size", several.whole_number)


def words(
    batch_size: Annotated[
        str | None,
        typer.Option(
            "--batch-size",
            "--batch-sizes",
            metavar="N,...",
            help="Samples in a batch; several are asked in turn. (default: the job's own)",
        ),
    ] = None,
    devices: Annotated[int, typer.Option(metavar="N", help="Devices of this machine that train together.")] = 1,
    precision: options.Precision = None,
    rule: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="legroom; or thesis: workers and batch together; --batch-size is then the largest."
        ),
    ] = "legroom",
) -> dict[str, Any]:
    """How many workers? Is it the disk, the CPU or the device?"""
    return {"batch_size": batch_size, "num_devices": devices, "precision": precision, "rule": rule}
