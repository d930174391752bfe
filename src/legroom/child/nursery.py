"""A process that has imported torch and our own code, touched no GPU, and forks a child whenever it is asked for one.

    python -m legroom.child nursery SOCKET PARENT_PID

A message on the socket holds the variables of the child's environment and four descriptors: its requests, its
messages, what it prints, and a pipe on which we tell its pid and, at its end, its exit status. Whoever closes the other
end of that pipe ends the child; whoever closes the socket, or ends this process, ends all.
"""

import contextlib
import importlib
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from legroom.child.file_pages import touch, touched_pages
from legroom.imports import uncollected
from legroom.requests import record_kinds

IDLE_SECONDS = 120.0
"""After so long without a child the nursery ends: who waits at a notebook has use for its memory."""
LARGEST_MESSAGE = 1 << 20
DEVICES = ("/dev/nvidia", "/dev/dxg", "/dev/kfd", "/dev/dri")
"""What a driver's context holds open."""


class Order(NamedTuple):
    """What a child is made of."""

    environment: bytes
    requests: int
    messages: int
    output: int
    status: int


@dataclass(slots=True)
class Forked:
    """A child that runs, or whose end somebody may still ask for."""

    pid: int
    status: int | None
    """Where its end is told; None once nobody listens."""
    end: int | None
    """Its pidfd; None once it has ended."""


def tend(descriptor: int) -> tuple[int, int]:
    """Import, then fork a child for each order; returns in the children alone, with their two descriptors."""
    os.set_inheritable(descriptor, False)
    import_ahead()
    end_library_threads()
    pages = touched_pages()
    order = Tender(socket.socket(fileno=descriptor)).work()
    settle_in(order)
    touch(pages)
    return order.requests, order.messages


def import_ahead() -> None:
    """Import what children need: whatever answers a request, and torch, whose first optimizer imports its compiler."""
    with uncollected():
        for kind in record_kinds().values():
            importlib.import_module(kind.answered_by.partition(":")[0])
        from legroom.training.torch_internals import import_compiler

        import_compiler()


def end_library_threads() -> None:
    """Fork once: OpenBLAS starts threads as numpy is imported, and ends them before a fork until it needs some."""
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


class Tender:
    """Forks and looks after what it forked."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.forked: dict[int, Forked] = {}
        """By the descriptors that tell of them."""
        self.poll = select.poll()
        self.poll.register(control, select.POLLIN)

    def work(self) -> Order:
        """Take one order after the other; returns in the children."""
        while events := self.poll.poll(None if self.forked else 1000 * IDLE_SECONDS):
            for descriptor, _ in events:
                if descriptor in self.forked:
                    self._look_after(self.forked[descriptor], descriptor)
                elif descriptor == self.control.fileno() and (order := self._take_order()) and self._fork(order):
                    return order
        os._exit(0)

    def _take_order(self) -> Order | None:
        content, descriptors, _, _ = socket.recv_fds(self.control, LARGEST_MESSAGE, 4, socket.MSG_CMSG_CLOEXEC)
        if not content:  # the parent is done
            os._exit(0)
        if len(descriptors) == 4:
            return Order(content, *descriptors)
        for descriptor in descriptors:  # no more of them may be open at once
            os.close(descriptor)
        return None

    def _fork(self, order: Order) -> bool:
        """Whether this is the child. A refused order is dropped: its pipe closes with nothing told."""
        nursery, pid = os.getpid(), None
        with contextlib.suppress(OSError):
            pid = None if is_unfit() or _is_deaf(order.status) else os.fork()
        if pid == 0:
            if os.getppid() != nursery:  # it ended before the kernel was asked to end us with it
                os._exit(1)
            os.setpgid(0, 0)
            self._let_go(order)
            return True
        if pid is None:
            os.close(order.status)
        else:
            self._keep(pid, order.status)
        for descriptor in (order.requests, order.messages, order.output):
            os.close(descriptor)
        return False

    def _keep(self, pid: int, status: int) -> None:
        with contextlib.suppress(OSError):  # both sides do it, so that whoever is told the pid finds the group
            os.setpgid(pid, pid)
        end = os.pidfd_open(pid)
        self.forked[status] = self.forked[end] = Forked(pid, status, end)
        self.poll.register(end, select.POLLIN)
        self.poll.register(status, 0)  # an error alone: nobody reads it any more
        _tell(status, pid)

    def _look_after(self, one: Forked, descriptor: int) -> None:
        """One has ended, or is to end. It is reaped when both are so: until then no other process gets its pid."""
        if descriptor == one.end:
            if one.status is not None:
                _tell(one.status, _exit_status(one.pid))
            one.end = None
        else:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(one.pid, signal.SIGKILL)
            one.status = None
        self.poll.unregister(descriptor)
        del self.forked[descriptor]
        os.close(descriptor)
        if one.end is one.status is None:
            os.waitpid(one.pid, 0)

    def _let_go(self, order: Order) -> None:
        """Close in a child what is the nursery's."""
        self.control.close()
        for descriptor in (order.status, *self.forked):
            os.close(descriptor)


def is_unfit(threads: Path = Path("/proc/self/task"), opened: Path = Path("/proc/self/fd")) -> bool:
    """Whether a fork of this process would be broken: by locks that threads hold, or by a driver it has talked to."""
    for _ in range(10):
        if len(os.listdir(threads)) == 1:
            return any(path.startswith(DEVICES) for path in _targets(opened))
        time.sleep(0.001)  # one that has just been joined is listed a moment longer
    return True


def _targets(folder: Path) -> Iterator[str]:
    for link in folder.iterdir():
        with contextlib.suppress(OSError):  # the one that lists the folder is closed by now
            yield os.readlink(link)


def _is_deaf(status: int) -> bool:
    """Whether nobody waits for the child any more."""
    poll = select.poll()
    poll.register(status, 0)
    return bool(poll.poll(0))


def _exit_status(pid: int) -> int:
    """As subprocess tells it; the process stays to be reaped."""
    ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert ended is not None
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status


def _tell(status: int, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):
        os.write(status, b"%d\n" % number)


def settle_in(order: Order) -> None:
    """Give this process what one started anew would have: its variables, its output, its words, dice of its own.

    What it has besides, such as folder and limits, is the nursery's: there is one for each set of these. Python's own
    dice are thrown anew by Python at every fork; those of a GPU begin alike in every process.
    """
    import torch

    os.dup2(order.output, 1)
    os.dup2(order.output, 2)
    os.close(order.output)
    os.environ.clear()
    os.environ.update(json.loads(order.environment))
    sys.argv[1:] = [str(number) for number in (order.requests, order.messages, os.getppid())]
    importlib.invalidate_caches()
    torch.default_generator.seed()
    if (numpy_random := sys.modules.get("numpy.random")) is not None:
        numpy_random.seed()
