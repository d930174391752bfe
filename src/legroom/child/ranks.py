"""Runs a function of ours on several ranks of a job: processes of this child, started by torch's elastic launcher.

    results = run_ranks(built.address, "legroom.questions.x.child:on_rank", {"size": 8}, num_ranks=2, device="cpu")

The function is called as on_rank(arguments, built, rank) in every process, with its process group open: gloo on CPUs,
NCCL on GPUs. It returns what JSON can say. Messages and results lie in a folder of their own, which goes with the call.
"""

import base64
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from legroom.child.rank import ECHO_SECONDS, ENDING, FIFO_NAME, ORDER_NAME, POLITELY, STARTS, place_in
from legroom.errors import JobCrashed, JobHung, LegroomError, UsageError, error_named
from legroom.job_address import JobAddress
from legroom.units import format_seconds

COMMAND = ("-X", "faulthandler", "-m", "legroom.child.rank")
COLLECTIVE_SECONDS = 240.0
"""How long ranks wait for one another by default: less than a job may do nothing before it counts as hung."""
JOIN_SECONDS = 60.0
STRANGER_SECONDS = 10
"""How long a store of torch may take to answer."""
ASK_STORE = """import os, signal, sys; from torch.distributed import TCPStore
signal.alarm(int(sys.argv[3])); TCPStore(sys.argv[1], int(sys.argv[2]), is_master=False).num_keys(); os._exit(0)"""
"""Asks it in a process of its own: torch 2.13 would wait for a stranger's words for ever."""
ASK_SECONDS = 0.1
WAKE_SECONDS = 2.0
"""How long torch's launcher may take to tell the ranks to end after one has."""
THREADS_NAME = "OMP_NUM_THREADS"
ENDED_BY_US = (-signal.SIGTERM,)

Beat = Callable[..., None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """Where the processes of several machines find each other; one machine needs none."""

    num_nodes: int = 1
    endpoint: str = "localhost:0"
    """host:port, the same on all machines; port 0 is a free one."""
    name: str = ""
    """The same on all machines."""
    join_seconds: float = JOIN_SECONDS
    """How long to wait for the others."""


def run_ranks(
    address: JobAddress,
    entry: str,
    arguments: Mapping[str, Any],
    *,
    num_ranks: int,
    device: str = "cpu",
    seconds: float | None = None,
    collective_seconds: float = COLLECTIVE_SECONDS,
    restarts: int = 0,
    meeting: Meeting | None = None,
    beat: Beat = lambda phase, share=None: None,
    on_start: Callable[["Ranks"], None] = lambda ranks: None,
) -> list[Any]:
    """What each of these ranks returned, in order. A rank that fails ends all, and its own error is raised.

    num_ranks: on this machine. seconds: limit of the whole call. collective_seconds: how long a rank waits for others.
    restarts: how often all ranks are started anew after one has failed.
    on_start: is given what can be told to the ranks while they run.
    """
    assert not (seconds and restarts), "ranks that ran out of time are not started again"
    with tempfile.TemporaryDirectory(prefix="legroom-ranks-") as name:
        ranks = Ranks(Path(name), num_ranks, device)
        order = {
            "address": _plain(address),
            "entry": entry,
            "arguments": dict(arguments),
            "device": device,
            "collective_seconds": collective_seconds,
            "parent": os.getpid(),
        }
        (ranks.folder / ORDER_NAME).write_text(json.dumps(order))
        variables = _variables(num_ranks, device, restarts)
        with ranks.listening(beat), ranks.limited(seconds), _environment(variables):
            on_start(ranks)
            _launch(ranks, meeting or Meeting(), restarts, beat)
        return ranks.results()


class Ranks:
    """The ranks of one call: their folder, what they said, how they ended."""

    def __init__(self, folder: Path, num_ranks: int, device: str = "cpu") -> None:
        self.folder, self.num_ranks, self.device = folder, num_ranks, device
        self.expired_after: float | None = None

    def tell_to_end(self) -> None:
        """Have every rank save and report."""
        self._signal(POLITELY)

    @property
    def were_started(self) -> bool:
        """Whether any was, as the files say that ranks leave."""
        return any(self.folder.glob(f"{STARTS}-*"))

    def results(self) -> list[Any]:
        """What each returned."""
        found = {int(path.stem.split("-")[1]): path for path in self.folder.glob("result-*.json")}
        return [json.loads(found[rank].read_text()) for rank in sorted(found)]

    @contextlib.contextmanager
    def listening(self, beat: Beat) -> Iterator[None]:
        """Pass on what the first rank here says it is at."""
        path = self.folder / FIFO_NAME
        os.mkfifo(path)
        end = os.open(path, os.O_RDWR)  # for writing too: no end of file comes before a rank has opened it

        def listen() -> None:
            with os.fdopen(os.dup(end), "rb") as lines:
                for line in iter(lines.readline, b"\n"):
                    message = json.loads(line)
                    if message["local_rank"] == 0 or message["beat"] == ENDING:
                        beat(message["beat"], message["share"])
                    if message["beat"] == ENDING:
                        self._end_stopped()

        listener = threading.Thread(target=listen, daemon=True)
        listener.start()
        try:
            yield
        finally:
            os.write(end, b"\n")
            listener.join()
            os.close(end)

    @contextlib.contextmanager
    def limited(self, seconds: float | None) -> Iterator[None]:
        """End the ranks after so long."""
        if seconds is None:
            yield
            return

        def expire() -> None:
            self.expired_after = seconds
            self._signal(signal.SIGTERM)

        timer = threading.Timer(seconds, expire)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _end_stopped(self) -> None:
        """Once all should have ended, let those end that were stopped (SIGSTOP): torch would wait 30 s for them."""
        processes = self._processes()  # not those that are started anew meanwhile

        def wake() -> None:
            for number in (signal.SIGTERM, signal.SIGCONT):
                self._signal(number, processes)

        timer = threading.Timer(ECHO_SECONDS + WAKE_SECONDS, wake)
        timer.daemon = True
        timer.start()

    def _processes(self) -> list[Any]:
        """Those of the ranks that run now."""
        import psutil

        found = []
        for process in psutil.Process().children():
            with contextlib.suppress(psutil.Error):
                found += [process] if str(self.folder) in process.cmdline() else []
        return found

    def _signal(self, number: signal.Signals, processes: Sequence[Any] | None = None) -> None:
        import psutil

        for process in self._processes() if processes is None else processes:
            with contextlib.suppress(psutil.Error):
                process.send_signal(number)

    def failure(self, codes: Mapping[int, int], num_all: int) -> LegroomError:
        """The error that ended them, and how often they had been started anew before.

        codes: how the ranks here ended that did not succeed, by rank. num_all: ranks on all machines.
        """
        error, num_restarts = self._failure(codes, num_all), self._last_start(min(codes))
        if not num_restarts:
            return error
        times = "once" if num_restarts == 1 else f"{num_restarts} times"
        return type(error)(f"{error}. All processes had been started anew {times} before", details=error.details)

    def _failure(self, codes: Mapping[int, int], num_all: int) -> LegroomError:
        """A rank's own error before those of ranks that only lost contact with it."""
        told = {rank: found for rank in codes if (found := self._told(rank))}
        own = {rank: error for rank, error in told.items() if not error["is_echo"]}
        if own:
            rank, error = next(iter(own.items()))
            message = f"On rank {rank} of {num_all}: {error['message']}"
            return error_named(error["type"])(message, details=error["details"])
        silent = {rank: code for rank, code in codes.items() if rank not in told}
        stuck = [rank for rank, code in silent.items() if code in ENDED_BY_US]
        # NCCL aborts a rank that waited for another too long, which is then no more to blame than one that says so.
        aborted = [rank for rank, code in silent.items() if self.device == "cuda" and code == -signal.SIGABRT]
        crashed = {rank: code for rank, code in silent.items() if rank not in (*stuck, *aborted)}
        crashed = crashed or ({} if stuck else {rank: silent[rank] for rank in aborted})
        if crashed:
            rank, code = next(iter(crashed.items()))
            how = f"died of {signal.Signals(-code).name}" if code < 0 else f"ended itself with exit status {code}"
            return JobCrashed(f"Rank {rank} of {num_all} {how}")
        return self._hung(stuck, aborted, told, num_all)

    def _hung(self, stuck: list[int], aborted: list[int], told: Mapping[int, Any], num_all: int) -> LegroomError:
        stacks = {rank: self._stack(rank) for rank in stuck}
        details = "\n".join([*stacks.values(), *(error["details"] for error in told.values())])
        names = f"{'Rank' if len(stuck) == 1 else 'Ranks'} {', '.join(map(str, stuck))} of {num_all}"
        places = "; ".join(place for stack in stacks.values() if (place := place_in(stack)))
        where = f", at {places}" if places else ""
        if self.expired_after is not None:
            return JobHung(f"{names} had not ended after {format_seconds(self.expired_after)}{where}", details=details)
        if stuck:
            ended = f". NCCL ended {', '.join(map(str, aborted))} with SIGABRT" if aborted else ""
            return JobHung(f"{names} did not come to where the others waited{where}{ended}", details=details)
        first = next(iter(told.values()), {"message": "All ranks ended without a word", "details": ""})
        return JobCrashed(f"The ranks lost contact: {first['message']}", details=details)

    def _told(self, rank: int) -> dict[str, Any] | None:
        """What the rank said the last time that it was started."""
        path = self.folder / f"error-{rank}-{self._last_start(rank)}.json"
        return json.loads(path.read_text()) if path.is_file() else None

    def _last_start(self, rank: int) -> int:
        """How often the rank was started anew."""
        starts = self.folder / f"{STARTS}-{rank % self.num_ranks}"
        return starts.stat().st_size - 1 if starts.is_file() else 0

    def _stack(self, rank: int) -> str:
        path = self.folder / f"stack-{rank}.txt"
        return path.read_text(errors="replace") if path.is_file() else ""


def _launch(ranks: Ranks, meeting: Meeting, restarts: int, beat: Beat = lambda phase, share=None: None) -> None:
    """Start them and wait for their ends, in this thread: the kernel ends a rank with the thread that started it."""
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.elastic.rendezvous import (
        RendezvousClosedError,
        RendezvousConnectionError,
        RendezvousTimeoutError,
    )
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    _refuse_stranger(meeting, beat)
    seconds = max(1, int(meeting.join_seconds))
    config = LaunchConfig(
        min_nodes=meeting.num_nodes,
        max_nodes=meeting.num_nodes,
        nproc_per_node=ranks.num_ranks,
        run_id=meeting.name or uuid.uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint=meeting.endpoint,
        rdzv_configs={"join_timeout": seconds, "read_timeout": seconds},
        max_restarts=restarts,
        # An interrupt is ours to pass on; torch would take it for an error.
        signals_to_handle="SIGQUIT",
        local_addr="localhost" if meeting.num_nodes == 1 else None,
    )
    num_all = meeting.num_nodes * ranks.num_ranks
    try:
        elastic_launch(config, sys.executable)(*COMMAND, str(ranks.folder))
    except ChildFailedError as failed:
        codes = {rank: found.exitcode for rank, found in failed.failures.items()}
        raise ranks.failure(codes, num_all) from None
    except (RendezvousClosedError, RendezvousTimeoutError, RendezvousConnectionError) as error:
        raise _unmet(error, meeting, ranks) from None


def _unmet(error: Exception, meeting: Meeting, ranks: Ranks) -> LegroomError:
    """Why the machines did not meet, or not again."""
    from torch.distributed.elastic.rendezvous import RendezvousClosedError, RendezvousTimeoutError

    where, within = meeting.endpoint, f"within {format_seconds(meeting.join_seconds)}"
    if ranks.were_started or isinstance(error, RendezvousClosedError):
        return JobCrashed(
            f"Another machine of this run has ended, and the ranks of {meeting.num_nodes} could not meet again at "
            f"{where}. What it says is why; start the same command on all of them, with --resume to go on",
            details=str(error),
        )
    if isinstance(error, RendezvousTimeoutError):
        return UsageError(
            f"Not all of {meeting.num_nodes} machines came to {where} {within}. Start the same command, with the same "
            "file of the job, on each of them, or name fewer --nodes"
        )
    return UsageError(
        f"Nobody answers at {where} as a meeting of ranks does {within}. Name a --rendezvous host:port that all "
        "machines reach, its host one of them, its port not in use by another program. Or the other machines ask for "
        "another run: give all of them the same file of the job and the same options",
        details=str(error.__cause__),
    )


def _refuse_stranger(meeting: Meeting, beat: Beat) -> None:
    """Refuse a port at which another program answers; `beat` says meanwhile that this is no silence of the job."""
    host, _, port = meeting.endpoint.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=1.0).close()
    except OSError:
        return  # nobody yet: this machine opens it, or waits for the one that will
    seconds = max(1, int(min(STRANGER_SECONDS, meeting.join_seconds)))
    asking = subprocess.Popen([sys.executable, "-c", ASK_STORE, host, port, str(seconds)], stderr=subprocess.DEVNULL)
    while asking.poll() is None:  # its import of torch included, which is no fault of who answers
        beat("looking who answers at the rendezvous")
        time.sleep(ASK_SECONDS)
    if asking.returncode:
        raise UsageError(
            f"Port {port} of {host} is in use by another program, which does not answer as a meeting of ranks does. "
            "Name another port in --rendezvous, the same on all machines"
        )


def _variables(num_ranks: int, device: str, restarts: int) -> dict[str, str]:
    """What ranks find in their environment besides ours."""
    variables = {}
    if device == "cpu" and THREADS_NAME not in os.environ:
        variables[THREADS_NAME] = str(threads_of_rank(num_ranks))
    if restarts:
        # torch 2.13 shares its launcher's store with the ranks: those started anew would read where the dead ones were.
        variables["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    return variables


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def threads_of_rank(num_ranks: int) -> int:
    """Threads of each rank on this machine."""
    from legroom.host.limits import read_limits

    return max(1, read_limits().num_cores // num_ranks)


def _plain(address: JobAddress) -> dict[str, Any]:
    """The address as the first line to a child has it."""
    pickled = None if address.pickled is None else base64.b64encode(address.pickled).decode()
    return {"text": address.text, "options": dict(address.options), "pickled": pickled, "folder": address.folder}
