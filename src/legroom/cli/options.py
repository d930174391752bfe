"""Options that several commands share, each written once."""

from pathlib import Path
from typing import Annotated

import typer

SHARED = "Options of all questions"
"""The panel of the help in which those stand that say nothing of the question itself."""

JobWord = Annotated[
    str, typer.Argument(metavar="JOB", help="file.py:function, package.module:function, or a built-in name.")
]
With = Annotated[list[str], typer.Option("--with", metavar="NAME=VALUE", help="An option of the job; may be repeated.")]
Data = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Folder of the job's data sets. (default: that of LEGROOM_DATA)")
]
Json = Annotated[
    bool,
    typer.Option("--json", rich_help_panel=SHARED, help="Print one JSON object on stdout and nothing else there."),
]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", rich_help_panel=SHARED, help="Folder of logbook, plan and report. (default: legroom-out/<job>)"
    ),
]
Resume = Annotated[
    bool,
    typer.Option("--resume", rich_help_panel=SHARED, help="Go on from what an earlier run left in the same folder."),
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", rich_help_panel=SHARED, help="List what would be run and the time it takes; run none."),
]
Seed = Annotated[
    int, typer.Option(metavar="N", rich_help_panel=SHARED, help="Seed of first weights and of the order of samples.")
]
Timeout = Annotated[
    float,
    typer.Option(
        metavar="SECONDS", min=0.1, rich_help_panel=SHARED, help="A job that does nothing for so long counts as hung."
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", rich_help_panel=SHARED, help="Say nothing on stderr but errors.")]
Debug = Annotated[
    bool,
    typer.Option("--debug", rich_help_panel=SHARED, help="Show the traceback or the job's own output with an error."),
]
Device = Annotated[str, typer.Option(metavar="NAME", help="cpu, cuda, or auto: the GPU where there is one.")]
Memory = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="Memory the job may use, such as 1GiB. (default: 90 % of what is free)"),
]
Card = Annotated[
    str | None, typer.Option(metavar="NAME", help="A GPU by name, such as a100-40gb: estimated where it is not here.")
]
Precision = Annotated[str | None, typer.Option(metavar="NAME", help="fp32, bf16 or fp16. (default: the job's own)")]


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
