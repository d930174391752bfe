"""`legroom loading`: how many workers, and what holds the device back?"""

from typing import Annotated

import typer

from legroom.cli import common


def run(
    job: common.JobWord = "digits",
    with_: common.With = [],  # noqa: B006  typer reads the default, nobody appends to it
    device: common.Device = "auto",
    batch_size: Annotated[int | None, typer.Option(help="Samples in a batch. (default: the job's own)")] = None,
    devices: Annotated[int, typer.Option(help="Devices of this machine that train together.")] = 1,
    precision: common.Precision = None,
    rule: Annotated[
        str, typer.Option(help="legroom; or thesis: workers and batch together; --batch-size is then the largest.")
    ] = "legroom",
    out: common.Out = None,
    resume: common.Resume = False,
    json: common.Json = False,
    dry_run: common.DryRun = False,
    seed: common.Seed = 0,
    timeout: common.Timeout = 300.0,
    quiet: common.Quiet = False,
    debug: common.Debug = False,
) -> None:
    """How many workers? Is it the disk, the CPU or the device?"""
    with common.speaking(json=json, debug=debug):
        from legroom import api
        from legroom.reports.console.loading import print_loading
        from legroom.reports.console.plan import print_foreseen

        words = {"options": common.options_of(with_), "device": device}
        if dry_run:
            common.print_answer(api.foresee_loading(job, **words), print_foreseen, json=json)  # type: ignore[arg-type]
            return
        with common.progress_bar(quiet=quiet) as progress:
            answer = api.loading(
                job,
                options=common.options_of(with_),
                device=device,
                batch_size=batch_size,
                num_devices=devices,
                precision=precision,
                rule=rule,
                run=api.Run(out=out, resume=resume, seed=seed, timeout=timeout, progress=progress),
            )
        common.print_answer(answer, print_loading, json=json)
        common.print_written(api.report_path(job, common.options_of(with_), out), json=json, quiet=quiet)
