"""`legroom machine`: what does this machine have, and how fast is it?"""

from legroom.clock import monotonic
from legroom.engines.local import LocalEngine
from legroom.host.target import check_device
from legroom.job_address import JobAddress
from legroom.questions.machine.advice import advise_machine
from legroom.questions.machine.answer import MachineAnswer
from legroom.requests import MeasureDevice
from legroom.session import Run


def machine(*, device: str = "auto", run: Run | None = None) -> MachineAnswer:
    """What this machine has: cores, memory, GPUs, and how fast they are."""
    run = run or Run()
    check_device(device)
    devices = ["cpu"] if device == "cpu" or not run.host.gpus else ["cpu", "cuda"]
    started = monotonic()
    child = (run.engine or LocalEngine(silence_seconds=run.timeout)).start(JobAddress(text=""), {})  # needs no job
    try:
        speeds = {}
        for share, name in enumerate(devices):
            run.progress(f"measuring {name}", share / len(devices))
            speeds[name] = dict(child.ask(MeasureDevice(device=name)).values)
    finally:
        child.close()
    return advise_machine(run.host, speeds, seconds=monotonic() - started)
