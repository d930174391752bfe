"""`legroom loading`: how many workers, and what holds the device back?"""

from typing import Annotated

import typer

from legroom.cli import common, several


def run(
    job: common.JobWord = "digits",
    with_: common.With = [],  # noqa: B006  typer reads the default, nobody appends to it
    data: common.Data = None,
    device: common.Device = "auto",
    batch_size: Annotated[
        str | None,
        typer.Option(
            "--batch-size",
            "--batch-sizes",
            metavar="N,...",
            help="Samples in a batch; several are asked in turn. (default: the job's own)",
        ),
    ] = None,
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

        options = common.options_of(with_, data)
        sizes = several.values_of("--batch-size", batch_size, several.whole_number)
        if dry_run:
            foreseen = api.foresee_loading(job, options=options, device=device, run=api.Run(out=out))
            common.print_answer(several.for_each(foreseen, sizes), print_foreseen, json=json)
            return
        with common.progress_bar(quiet=quiet) as progress:
            found = several.ask_each(
                sizes,
                api.Run(out=out, resume=resume, seed=seed, timeout=timeout, progress=progress),
                lambda size, run: api.loading(
                    job,
                    options=options,
                    device=device,
                    batch_size=size,
                    num_devices=devices,
                    precision=precision,
                    rule=rule,
                    run=run,
                ),
            )
        several.print_answers(found, print_loading, alone=len(sizes) == 1, json=json)
        common.print_written(api.report_path(job, options, out), json=json, quiet=quiet)
