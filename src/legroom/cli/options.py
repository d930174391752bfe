"""Options that several commands share, each written once."""

from pathlib import Path
from typing import Annotated

import typer

JobWord = Annotated[
    str, typer.Argument(metavar="JOB", help="file.py:function, package.module:function, or a built-in name.")
]
With = Annotated[list[str], typer.Option("--with", metavar="NAME=VALUE", help="An option of the job; may be repeated.")]
Data = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Folder of the job's data sets. (default: LEGROOM_DATA)")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else there.")]
Out = Annotated[Path | None, typer.Option(help="Folder of logbook, plan and report. (default: legroom-out/<job>)")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on from what an earlier run left in the same folder.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="List the probes and the time they should take; run none.")]
Seed = Annotated[int, typer.Option(help="Seed of initialisation and order.")]
Timeout = Annotated[float, typer.Option(min=0.1, help="Seconds a job may do nothing before it counts as hung.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback or the job's own output behind an error.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, or auto: the GPU where there is one.")]
Memory = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="Memory the job may use, such as 1GiB. (default: 90 % of what is free)"),
]
Card = Annotated[
    str | None, typer.Option(metavar="NAME", help="A GPU by name, such as a100-40gb: estimated where it is not here.")
]
Precision = Annotated[str | None, typer.Option(help="fp32, bf16 or fp16. (default: the job's own)")]


def of_the_job(
    job: JobWord = "digits",
    with_: With = [],  # noqa: B006  typer reads the default, nobody appends to it
    data: Data = None,
    device: Device = "auto",
) -> None:
    """Options that stand before a question's own."""


def of_the_run(
    out: Out = None,
    resume: Resume = False,
    json: Json = False,
    dry_run: DryRun = False,
    seed: Seed = 0,
    timeout: Timeout = 300.0,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Options that stand behind a question's own."""


OF_ALL = ("json", "debug")
OF_MACHINES = (*OF_ALL, "device", "timeout", "quiet")
OF_JOBS = (*OF_MACHINES, "job", "with_", "data", "out", "resume", "seed")
OF_QUESTIONS = (*OF_JOBS, "dry_run")
"""What commands take: all of them, those that start a child, those that are about a job, those that can be foreseen."""
