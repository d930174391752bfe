"""Words of `legroom size`."""

from typing import Annotated, Any

import typer

from legroom.errors import UsageError
from legroom.units import parse_seconds


def words(
    widths: Annotated[
        str | None, typer.Option(metavar="N,N,...", help="Widths to try. (default: the job's own and three smaller)")
    ] = None,
    depths: Annotated[
        str | None, typer.Option(metavar="N,N,...", help="Depths to try, with --vary depth. (default: 1, 2, 4 ... 128)")
    ] = None,
    fractions: Annotated[
        str | None,
        typer.Option(
            metavar="F,F,...", help="Shares of the training data; the whole scores the fit. (default: 1/64, 1/16, 1/4)"
        ),
    ] = None,
    vary: Annotated[str, typer.Option(metavar="NAME", help="width or depth.")] = "width",
    rate_rule: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="fixed: one rate for all sizes; mup: scaled with the width for each kind of parameter."
        ),
    ] = "fixed",
    compare_optimizers: Annotated[
        bool, typer.Option("--compare-optimizers", help="Fit the law for SGD and for Adam too.")
    ] = False,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="loss=VALUE", help="The loss to reach soonest. (default: what the job's own size reaches)"
        ),
    ] = None,
    within: Annotated[
        str | None, typer.Option(metavar="TIME", help="Name the best loss within this time of training, as 10min.")
    ] = None,
    budget: Annotated[str, typer.Option(metavar="TIME", help="Time the trials may take, such as 5min.")] = "3min",
    seeds: Annotated[int, typer.Option(metavar="N", help="Runs of each size, where the budget lasts.")] = 3,
) -> dict[str, Any]:
    """How large a model, how much data? Would a larger one be done sooner?"""
    lists = {
        "widths": _whole(widths, "--widths"),
        "depths": _whole(depths, "--depths"),
        "fractions": _shares(fractions),
    }
    times = {"within": None if within is None else parse_seconds(within), "budget": parse_seconds(budget)}
    rest = {"vary": vary, "rate_rule": rate_rule, "compare_optimizers": compare_optimizers, "target": target}
    return {**lists, **times, **rest, "seeds": seeds}


def _whole(listed: str | None, option: str) -> list[int] | None:
    """The values of `--widths 32,64,128`."""
    try:
        return None if listed is None else [int(word) for word in listed.split(",")]
    except ValueError:
        raise UsageError(f"{option} {listed} cannot be read. Write whole numbers with commas: 32,64,128") from None


def _shares(listed: str | None) -> list[float] | None:
    """The values of `--fractions 0.0625,0.125`."""
    try:
        return None if listed is None else [float(word) for word in listed.split(",")]
    except ValueError:
        raise UsageError(f"--fractions {listed} cannot be read. Write shares with commas: 0.0625,0.125,0.25") from None
