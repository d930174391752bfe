"""`legroom memory`: how large a batch fits?"""

from typing import Annotated

import typer

from legroom.cli import common, several
from legroom.units import parse_bytes


def run(
    job: common.JobWord = "digits",
    with_: common.With = [],  # noqa: B006  typer reads the default, nobody appends to it
    data: common.Data = None,
    device: common.Device = "auto",
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE,...",
            help="Memory the job may use, such as 1GiB; several are asked in turn. (default: 90 % of what is free)",
        ),
    ] = None,
    card: common.Card = None,
    precision: common.Precision = None,
    effective_batch: Annotated[
        int | None, typer.Option(help="Batch you want; prints the micro-batch and accumulation that give it.")
    ] = None,
    devices: Annotated[int, typer.Option(help="Data-parallel devices: each also holds buckets of gradients.")] = 1,
    rule: Annotated[str, typer.Option(help="legroom; or thesis: a line through two probes.")] = "legroom",
    out: common.Out = None,
    resume: common.Resume = False,
    json: common.Json = False,
    dry_run: common.DryRun = False,
    seed: common.Seed = 0,
    timeout: common.Timeout = 300.0,
    quiet: common.Quiet = False,
    debug: common.Debug = False,
) -> None:
    """How large a batch fits? Proved in a fresh process."""
    with common.speaking(json=json, debug=debug):
        from legroom import api
        from legroom.reports.console.memory import print_memory
        from legroom.reports.console.plan import print_foreseen

        options, sizes = common.options_of(with_, data), several.values_of("--memory", memory, parse_bytes)
        if dry_run:
            foreseen = api.foresee(
                job, options=options, device=device, memory=sizes[0], card=card, run=api.Run(out=out)
            )
            common.print_answer(several.for_each(foreseen, sizes), print_foreseen, json=json)
            return
        with common.progress_bar(quiet=quiet) as progress:
            found = several.ask_each(
                sizes,
                api.Run(out=out, resume=resume, seed=seed, timeout=timeout, progress=progress),
                lambda size, run: api.memory(
                    job,
                    options=options,
                    device=device,
                    memory=size,
                    card=card,
                    precision=precision,
                    effective_batch=effective_batch,
                    num_devices=devices,
                    rule=rule,
                    run=run,
                ),
            )
        several.print_answers(found, print_memory, alone=len(sizes) == 1, json=json)
        common.print_written(api.report_path(job, options, out), json=json, quiet=quiet)
