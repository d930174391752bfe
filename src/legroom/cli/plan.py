"""`legroom plan`: what should I run?"""

from dataclasses import replace
from pathlib import Path

from legroom.cli import common


def run(
    job: common.JobWord = "digits",
    with_: common.With = [],  # noqa: B006  typer reads the default, nobody appends to it
    data: common.Data = None,
    device: common.Device = "auto",
    memory: common.Memory = None,
    card: common.Card = None,
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
    """What should I run? Takes the answers in the folder, proves that the batch fits, and writes plan.toml."""
    with common.speaking(json=json, debug=debug):
        from legroom import api
        from legroom.reports.console.plan import print_foreseen, print_plan

        if dry_run:
            foreseen = api.foresee(
                job,
                options=common.options_of(with_, data),
                device=device,
                memory=memory,
                card=card,
                run=api.Run(out=out),
            )
            note = "An answer to memory in the folder that still holds takes the place of all but the first"
            common.print_answer(replace(foreseen, notes=[*foreseen.notes, note]), print_foreseen, json=json)
            return
        with common.progress_bar(quiet=quiet) as progress:
            answer = api.plan(
                job,
                options=common.options_of(with_, data),
                device=device,
                memory=memory,
                card=card,
                precision=precision,
                run=api.Run(out=out, resume=resume, seed=seed, timeout=timeout, progress=progress),
            )
        common.print_answer(answer, print_plan, json=json)
        common.print_written(api.report_path(job, common.options_of(with_, data), out), json=json, quiet=quiet)
        common.print_written(Path(answer.plan_path), json=json, quiet=quiet)
