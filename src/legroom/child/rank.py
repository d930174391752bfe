"""The process of one rank: opens its process group, runs a function of ours on the job, leaves its result in a file.

    python -m legroom.child.rank FOLDER

Started by torch's elastic launcher, whose variables say which rank it is. `legroom.child.ranks` has the other side.
"""

import contextlib
import faulthandler
import importlib
import json
import os
import re
import signal
import sys
import sysconfig
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from legroom.child.__main__ import describe_error, die_with, open_job, spare_inherited
from legroom.files import write_atomically
from legroom.imports import uncollected
from legroom.requests import SAVED, SAVING

if TYPE_CHECKING:
    import torch

ORDER_NAME, FIFO_NAME, STARTS = "order.json", "messages", "starts"
ENDING = "ending"
"""What a rank says that is about to end with an error."""
POLITELY = signal.SIGUSR2
"""Tells a rank to save and report; SIGTERM, which torch's launcher sends to what is left of a run, ends it."""
ECHO_SECONDS = 3.0
"""How long a rank that lost contact with another lets that one's own error be seen first."""
BEAT_SECONDS = 0.5
ECHOES = ("gloo", "Connection closed by peer", "Connection reset", "recv operation", "Broken pipe", "NCCL", "TCPStore")
"""Words of torch's errors where the other side of a connection is gone, or silent for too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """Which of the processes this is."""

    number: int
    num_ranks: int
    """On all machines."""
    local_number: int
    num_restarts: int
    """How often all ranks have been started anew by now."""
    device: "torch.device"
    told: "Told"
    """Whether this process was told to save and report."""


class Told:
    """Notes a signal; where nobody reads it, the rank goes on."""

    def __init__(self) -> None:
        self.came = False
        signal.signal(POLITELY, self._note)

    def _note(self, number: int, frame: object) -> None:
        self.came = True


def main() -> None:
    """Run what the order says and leave a result, or an error, in the folder."""
    told = Told()  # first of all: the signal would end this process
    folder = Path(sys.argv[1])
    order = json.loads((folder / ORDER_NAME).read_text())
    die_with(order["parent"])
    spare_inherited()
    number, local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    attempt = count_starts(folder, local)
    tell_place_at_the_end(folder / f"stack-{number}.txt")
    reporter = FifoReporter(folder / FIFO_NAME, local)
    try:
        result = run(order, reporter, number, attempt, told)
        write_atomically(folder / f"result-{number}.json", json.dumps(result))
    except BaseException as error:
        is_echo = lost_contact(error)
        described = {**describe_error(error), "is_echo": is_echo}
        write_atomically(folder / f"error-{number}-{attempt}.json", json.dumps(described))
        reporter.beat(ENDING)  # whoever listens is not to take what follows for silence
        if is_echo:
            time.sleep(ECHO_SECONDS)
        os._exit(1)  # torch's threads wait for ranks that may be gone
    os._exit(0)


def run(order: dict[str, Any], reporter: "FifoReporter", number: int, attempt: int, told: Told) -> Any:
    """Call the function with the job and the process group open."""
    with uncollected():
        import torch
        from torch import distributed

    local = reporter.local_rank
    device = torch.device("cpu")
    if order["device"] == "cuda":
        device = torch.device("cuda", local)
        torch.cuda.set_device(device)
    distributed.init_process_group(
        "nccl" if device.type == "cuda" else "gloo",
        timeout=timedelta(seconds=order["collective_seconds"]),
        device_id=device if device.type == "cuda" else None,
    )
    rank = Rank(
        number=number,
        num_ranks=distributed.get_world_size(),
        local_number=local,
        num_restarts=attempt,
        device=device,
        told=told,
    )
    built = open_job(order["address"], reporter.beat)
    module, _, function = order["entry"].partition(":")
    with uncollected():
        entered = importlib.import_module(module)
    return getattr(entered, function)(order["arguments"], built, rank)


def count_starts(folder: Path, local_rank: int) -> int:
    """How often this process of the machine was started before; counted here, in the folder of this launch.

    torch's own count leaves out those that another machine's failure caused.
    """
    with (folder / f"{STARTS}-{local_rank}").open("ab") as file:
        file.write(b".")
        return file.tell() - 1


class FifoReporter:
    """Tells what this rank is at; lines of one write each, which a pipe does not tear."""

    def __init__(self, path: Path, local_rank: int) -> None:
        self.descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        self.local_rank, self.last_beat = local_rank, 0.0

    def beat(self, phase: str, share: float | None = None) -> None:
        """Say that the job got as far as this phase."""
        if time.monotonic() - self.last_beat > BEAT_SECONDS or phase in (SAVING, SAVED, ENDING):
            self.last_beat = time.monotonic()
            line = json.dumps({"local_rank": self.local_rank, "beat": phase[:500], "share": share})
            with contextlib.suppress(BlockingIOError):  # nobody reads as fast: the next one will do
                os.write(self.descriptor, line.encode() + b"\n")


def lost_contact(error: BaseException) -> bool:
    """Whether the error only says that another rank is gone or silent."""
    from torch import distributed

    if isinstance(error, distributed.DistError):
        return True
    return isinstance(error, RuntimeError) and any(word in str(error) for word in ECHOES)


def tell_place_at_the_end(path: Path) -> None:
    """Write down where this process is when a SIGTERM ends it: that is where it hung."""
    file = path.open("w")
    # Of all threads: any may be the one that hears it, where all of the process was stopped when it came.
    faulthandler.register(signal.SIGTERM, file=file, chain=True)
    os.register_at_fork(after_in_child=lambda: faulthandler.unregister(signal.SIGTERM))


def place_in(stack: str) -> str:
    """The innermost line of the job's own files in the main thread of such a dump, which comes last.

    >>> place_in('  File "/usr/lib/python3/time.py", line 3 in sleep\\\\n  File "/home/me/job.py", line 7 in read')
    '/home/me/job.py, line 7'
    """
    others = (str(Path(__file__).parents[1]), sysconfig.get_path("stdlib"), "/usr/lib", "<")
    for name, line in re.findall(r'File "([^"]+)", line (\d+)', stack.strip().split("\n\n")[-1]):
        if not name.startswith(others) and "site-packages" not in name:
            return f"{name}, line {line}"
    return ""


if __name__ == "__main__":
    main()
