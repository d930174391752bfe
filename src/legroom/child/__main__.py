"""The process that runs the user's code: builds the job, serves requests, reports records, dies with its parent.

    python -m legroom.child READ_DESCRIPTOR WRITE_DESCRIPTOR PARENT_PID

It is started so, or forked from a process that was: `legroom.child.nursery`.
One JSON line comes in with the job's address, then one a request. Out go {"beat": phase, "share": done} while it works
and {"result": ...} or {"error": ...} at the end. The user's prints go to stdout and stderr, which are not ours.
"""

import base64
import contextlib
import ctypes
import gc
import json
import os
import signal
import sys
import sysconfig
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from legroom.imports import uncollected
from legroom.requests import NURSERY, SAVED, SAVING

PR_SET_PDEATHSIG = 1
BEAT_SECONDS = 1.0
OURS = ("while legroom ", "at index ")
"""How the notes begin that we add to an error of the job."""


def main() -> None:
    """Serve requests until the parent closes the pipe; a nursery's children begin behind `tend`."""
    first, second, parent = sys.argv[1:4]
    die_with(int(parent))
    spare_inherited()
    if first == NURSERY:
        from legroom.child.nursery import tend

        requests, messages = tend(int(second))
    else:
        requests, messages = int(first), int(second)
    reporter = Reporter(messages)
    lines = read_lines(requests)
    built = open_job(next(lines), reporter.beat)
    for line in lines:
        try:
            from legroom.child.serve import serve
            from legroom.requests import request_of, to_json

            reporter.send({"result": to_json(serve(request_of(line), built))})
        except BaseException as error:
            reporter.send({"error": describe_error(error)})


def spare_inherited() -> None:
    """Keep what forked processes inherit from their collectors: one that frees a pinned tensor or CUDA event aborts."""
    if hasattr(os, "register_at_fork"):  # not on Windows, where nothing is inherited
        os.register_at_fork(after_in_child=gc.freeze)


def open_job(address: dict[str, Any], beat: Callable[..., None]) -> Any:
    """The job, which it begins to build before anybody asks: a child started early is ready early."""
    with uncollected():
        from legroom.child.built_job import BuiltJob
        from legroom.job_address import JobAddress
    gc.freeze()  # all of it stays, and the collector would walk over it whenever a model is let go

    pickled = None if address["pickled"] is None else base64.b64decode(address["pickled"])
    place = JobAddress(text=address["text"], options=address["options"], pickled=pickled, folder=address["folder"])
    built = BuiltJob(place, beat=beat)
    if place.text:
        with contextlib.suppress(BaseException):  # whatever it is comes again when it is asked for, and is told then
            built.prepare()
    return built


class Reporter:
    """Sends messages up the pipe; a beat at most once a second, so that a working job is not taken for a hung one."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.last_beat = 0.0

    def send(self, message: dict[str, Any]) -> None:
        """Write one line, whole."""
        content = json.dumps(message).encode() + b"\n"
        while content:
            content = content[os.write(self.descriptor, content) :]

    def beat(self, phase: str, share: float | None = None) -> None:
        """Say that the job got as far as this phase, and what share of the work is done where that is known."""
        if time.monotonic() - self.last_beat > BEAT_SECONDS or phase in (SAVING, SAVED):
            self.last_beat = time.monotonic()
            self.send({"beat": phase, "share": share})


def read_lines(descriptor: int) -> Iterator[dict[str, Any]]:
    """JSON lines from a raw descriptor: a buffered file read in a thread would deadlock forked loader workers."""
    buffer = b""
    while chunk := os.read(descriptor, 1 << 16):
        buffer += chunk
        while b"\n" in buffer:
            line, _, buffer = buffer.partition(b"\n")
            yield json.loads(line)


def die_with(parent: int) -> None:
    """End this process, and every process it forks, as soon as its parent ends, even by SIGKILL."""
    if sys.platform != "linux":
        return  # elsewhere the closed pipe ends the child at its next read
    libc = ctypes.CDLL(None)

    def ask_kernel() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

    ask_kernel()
    os.register_at_fork(after_in_child=ask_kernel)
    if os.getppid() != parent:  # it ended before we asked
        os._exit(1)
    with contextlib.suppress(OSError):
        # Should the machine run out of memory, the kernel ends this process first, not the user's others.
        Path("/proc/self/oom_score_adj").write_text("1000")


def describe_error(error: BaseException) -> dict[str, Any]:
    """An error as it crosses to the parent: its class among ours, one sentence, and the traceback for hunters."""
    from legroom.errors import LegroomError

    details = "".join(traceback.format_exception(error))
    if isinstance(error, LegroomError):
        return {"type": type(error).__name__, "message": str(error), "details": error.details or details}
    if _is_out_of_memory(error):
        return {"type": "OutOfMemory", "message": "The job ran out of memory", "details": details}
    first_line = (str(error).splitlines() or [""])[0][:300]
    notes = "".join(f", {note}" for note in getattr(error, "__notes__", []) if note.startswith(OURS))
    message = f"The job raised {type(error).__name__}: {first_line}{_place(error)}{notes}"
    return {"type": "JobRaised", "message": message, "details": details}


def _is_out_of_memory(error: BaseException) -> bool:
    torch = sys.modules.get("torch")
    return isinstance(error, MemoryError) or (torch is not None and isinstance(error, torch.OutOfMemoryError))


def _place(error: BaseException) -> str:
    """Where in the user's own files it happened: the innermost frame that is neither ours nor a library's."""
    others = (str(Path(__file__).parents[1]), sysconfig.get_path("stdlib"), "<")
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith(others) and "site-packages" not in frame.filename:
            return f" ({frame.filename}, line {frame.lineno})"
    return ""


if __name__ == "__main__":
    main()
