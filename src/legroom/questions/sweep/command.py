"""Words of `legroom sweep`."""

from typing import Annotated, Any

import typer

from legroom.cli import options
from legroom.questions.sweep.ranges import read_rates, read_sizes


def words(
    batch_sizes: Annotated[
        str | None,
        typer.Option(
            metavar="RANGE",
            help="512..16384 (by doubling), or a list as 32,64. (default: 1/4, 1, 4 and 16 times the job's own)",
        ),
    ] = None,
    rates: Annotated[
        str, typer.Option(metavar="RANGE", help="Learning rates: 1e-5..1e-1 (by factors of 10), or a list as 0.03,0.1.")
    ] = "1e-5..1e-1",
    workers: Annotated[
        str | None, typer.Option(metavar="RANGE", help="Loader processes, as 0,2,4. (default: the job's own)")
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(metavar="N", help="Of a trial at most. (default: the job's own)")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Of training in a trial at most. (default: no limit)")
    ] = None,
    patience: Annotated[int, typer.Option(metavar="N", help="Epochs without gain that end a trial.")] = 3,
    together: Annotated[int, typer.Option(metavar="N", help="Trials at once, as far as memory allows.")] = 1,
    precision: options.Precision = None,
) -> dict[str, Any]:
    """Train every batch size at every rate: scores, times, utilisation and memory of a whole grid."""
    return {
        "batch_sizes": read_sizes(batch_sizes) if batch_sizes else (),
        "rates": read_rates(rates),
        "workers": read_sizes(workers, "--workers") if workers else (),
        "epochs": epochs,
        "seconds": seconds,
        "patience": patience,
        "together": together,
        "precision": precision,
    }
