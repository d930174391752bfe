"""`legroom machine`: what does this machine have, and how fast is it?"""

from legroom.cli.common import Debug, Device, Json, Quiet, Timeout, print_answer, progress_bar, speaking


def run(
    device: Device = "auto", json: Json = False, timeout: Timeout = 300.0, quiet: Quiet = False, debug: Debug = False
) -> None:
    """What does this machine have, and how fast is it?"""
    with speaking(json=json, debug=debug, resumes=False):
        from legroom import api
        from legroom.reports.console.machine import print_machine

        with progress_bar(quiet=quiet) as progress:
            answer = api.machine(device=device, run=api.Run(timeout=timeout, progress=progress))
        print_answer(answer, print_machine, json=json)
