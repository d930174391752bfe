"""Words of `legroom vocabulary`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from legroom.cli import options

SHARED = options.OF_ALL


def words(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A text: plain, .gz or .zip; one sentence a line.")],
    by: Annotated[
        str, typer.Option(help="min-frequency; common-limit (common-word elimination); merges (byte pairs).")
    ] = "min-frequency",
    column: Annotated[int, typer.Option(min=0, help="Column of a tab-separated file; 0: whole lines.")] = 0,
    tokens: Annotated[str, typer.Option(help="words, marks or spaces.")] = "words",
    max_length: Annotated[int, typer.Option(min=1, help="Longer lines are left out.")] = 100,
    cells: Annotated[int, typer.Option(min=1, help="Cells that feed the output layer.")] = 128,
    batch_size: Annotated[int, typer.Option(min=1, help="Sentences of the batch whose word scores are counted.")] = 512,
) -> dict[str, Any]:
    """How large is a text's vocabulary by threshold or merges, and what does each cost?"""
    named = {"file": file, "by": by, "column": column, "tokens": tokens}
    return {**named, "max_length": max_length, "num_cells": cells, "batch_size": batch_size}
