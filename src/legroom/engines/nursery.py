"""Children forked from a process that has imported torch already: in milliseconds, where a start takes seconds.

There is a nursery for each set of things that a process keeps from its start (allocator variables, working folder,
core affinity, ...), shared by all engines of this process, and ended with it. See `legroom.child.nursery` for its side.
"""

import atexit
import contextlib
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from legroom.engines.process import COMMAND, Pipes
from legroom.requests import NURSERY

READ_AT_START = (
    "OMP_", "KMP_", "GOMP_", "MKL_", "OPENBLAS_", "BLIS_", "DNNL_", "ONEDNN_", "ATEN_", "NPY_", "MALLOC_", "GLIBC_",
    "LD_", "PYTORCH_", "TORCH", "CUDA_", "NVIDIA_", "PYTHON", "LANG", "LC_", "TZ", "HOME", "TMPDIR", "XDG_",
)  # fmt: skip
"""How the variables begin that Python and the libraries read as they are loaded; all others can be set after a fork."""
PATIENCE_SECONDS = 120.0
"""How long a nursery may take to import and to fork, before the child is started anew instead."""


class ForkedProcess:
    """A child that a nursery forked. It reaps it only when it is ended here, so that no other gets its pid before."""

    def __init__(self, pid: int, status: Any, pipes: Pipes) -> None:
        self.pid, self.pipes = pid, pipes
        self._status = status
        self._code: int | None = None

    def wait(self) -> int:
        """Its exit status once it has ended; where the nursery was killed, the kernel ended the child with it."""
        if self._code is None:
            self._code = int(self._status.readline() or -signal.SIGKILL)
        return self._code

    def end(self) -> None:
        """End it and its group."""
        if not self._status.closed:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self.wait()
            self._status.close()


class Nursery:
    """The process that forks; it imports while this one does other things."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(PATIENCE_SECONDS)
        self.owner = os.getpid()
        with theirs:
            self._process = subprocess.Popen(
                [*COMMAND, NURSERY, str(theirs.fileno()), str(self.owner)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,  # read by nobody; a child's streams must have been made for a pipe
                stderr=subprocess.STDOUT,
                pass_fds=(theirs.fileno(),),
                process_group=0,
                env=environment,
            )
        self.pid = self._process.pid
        self._has_forked = False
        self.refuses = False
        """Whether it never could fork: torch does not import, or a library has started threads or touched a GPU."""

    def is_gone(self) -> bool:
        """Whether it forked and has ended since: nobody asked for long, or it was killed."""
        return not self.refuses and self._process.poll() is not None

    def fork(self, environment: Mapping[str, str], pipes: Pipes) -> ForkedProcess | None:
        """A child with that environment; None where it must be started anew."""
        reads, writes = os.pipe()
        status = os.fdopen(reads, "rb", buffering=0)
        try:
            self._ask(environment, [*pipes.childs, writes])
            told = status.readline() if select.select([status], [], [], PATIENCE_SECONDS)[0] else b""
        except BaseException:
            status.close()
            raise
        if told:
            self._has_forked = True
            return ForkedProcess(int(told), status, pipes)
        status.close()
        if not self._has_forked:
            self.refuses = True
            self.end()
        return None

    def _ask(self, environment: Mapping[str, str], descriptors: list[int]) -> None:
        content = json.dumps(dict(environment)).encode()
        try:
            # One that has ended, or so many variables that no message holds them: nothing will then be told.
            with contextlib.suppress(OSError):
                socket.send_fds(self._socket, [content], descriptors, socket.MSG_NOSIGNAL)
        finally:
            os.close(descriptors[-1])

    def end(self) -> None:
        """End it, and with it all it forked."""
        self._socket.close()
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


_nurseries: dict[Any, Nursery] = {}
_lock = threading.Lock()


def nursery_for(environment: Mapping[str, str]) -> Nursery | None:
    """The nursery of children with that environment, started if need be; None where a child must be started anew."""
    if sys.platform != "linux" or not hasattr(os, "pidfd_open"):
        return None
    try:
        kept = (os.getpid(), *kept_from_start(environment))
    except OSError:  # such as a working folder that is no more
        return None
    with _lock:
        found = _nurseries.get(kept)
        if found is not None and found.is_gone():
            found.end()
            found = None
        if found is None and threading.current_thread() is threading.main_thread():
            # The kernel ends a nursery with the thread that started it.
            found = _nurseries[kept] = Nursery(environment)
        return found if found is not None and not found.refuses else None


def kept_from_start(environment: Mapping[str, str]) -> tuple[Any, ...]:
    """All that a process has from its start and that is not given to it after a fork."""
    import resource  # Windows has none

    read = {name: value for name, value in environment.items() if name.startswith(READ_AT_START)}
    limits = [resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT_")]
    umask = re.findall(r"^Umask:\s*(\d+)", Path("/proc/self/status").read_text(), re.MULTILINE)
    place = (os.getcwd(), *umask, os.getpriority(os.PRIO_PROCESS, 0), frozenset(os.sched_getaffinity(0)))
    return (sys.executable, *place, tuple(limits), tuple(sorted(read.items())))


@atexit.register
def _end_all() -> None:
    for nursery in _nurseries.values():
        if nursery.owner == os.getpid() and not nursery.refuses:
            nursery.end()
