"""`legroom speed`: where does a larger batch stop paying?"""

from typing import Annotated

import typer

from legroom.cli import common
from legroom.errors import UsageError


def run(
    job: common.JobWord = "digits",
    with_: common.With = [],  # noqa: B006  typer reads the default, nobody appends to it
    data: common.Data = None,
    device: common.Device = "auto",
    batch_sizes: Annotated[
        str | None,
        typer.Option(metavar="N,N,...", help="Sizes to time. (default: chosen from 1 to the largest that fits)"),
    ] = None,
    rule: Annotated[str, typer.Option(help="throughput; or utilisation: the smallest that keeps the device busy.")] = (
        "throughput"
    ),
    share: Annotated[float, typer.Option(help="Of the best that the recommended batch must reach.")] = 0.9,
    seconds: Annotated[float, typer.Option(help="Time for the repeats, all sizes together.")] = 15.0,
    precision: common.Precision = None,
    out: common.Out = None,
    resume: common.Resume = False,
    json: common.Json = False,
    dry_run: common.DryRun = False,
    seed: common.Seed = 0,
    timeout: common.Timeout = 300.0,
    quiet: common.Quiet = False,
    debug: common.Debug = False,
) -> None:
    """Where does a larger batch stop paying? Is the device busy?"""
    with common.speaking(json=json, debug=debug):
        from legroom import api
        from legroom.reports.console.plan import print_foreseen
        from legroom.reports.console.speed import print_speed

        options = common.options_of(with_, data)
        if dry_run:
            foreseen = api.foresee_speed(job, options=options, device=device, seconds=seconds, run=api.Run(out=out))
            common.print_answer(foreseen, print_foreseen, json=json)
            return
        with common.progress_bar(quiet=quiet) as progress:
            answer = api.speed(
                job,
                options=options,
                device=device,
                batch_sizes=_sizes_of(batch_sizes),
                rule=rule,
                share=share,
                seconds=seconds,
                precision=precision,
                run=api.Run(out=out, resume=resume, seed=seed, timeout=timeout, progress=progress),
            )
        common.print_answer(answer, print_speed, json=json)
        common.print_written(api.report_path(job, options, out), json=json, quiet=quiet)


def _sizes_of(words: str | None) -> list[int]:
    """The sizes of `--batch-sizes 8,16,24`."""
    try:
        return [int(word) for word in words.split(",")] if words is not None else []
    except ValueError:
        raise UsageError(f"--batch-sizes {words} cannot be read. Write whole numbers with commas: 8,16,24") from None
