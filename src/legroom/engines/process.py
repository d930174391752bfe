"""The process of a child as its conversation sees it: three pipes, a pid, an end. Here one that is started anew."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from typing import Protocol

COMMAND = (sys.executable, "-X", "faulthandler", "-m", "legroom.child")


class Pipes:
    """Requests go down one; messages, and what the job prints, come up the two others."""

    def __init__(self) -> None:
        requests, self.requests = os.pipe()
        self.messages, messages = os.pipe()
        self.output, output = os.pipe()
        self.childs = [requests, messages, output]
        """Their ends in the child, open here until it has them."""

    def hand_over(self) -> None:
        """Close the child's ends: when it ends, reads from it end too."""
        while self.childs:
            os.close(self.childs.pop())

    def close(self) -> None:
        """Close our ends but the output's, which is closed by whoever reads it."""
        for descriptor in (self.requests, self.messages):
            if descriptor >= 0:
                os.close(descriptor)
        self.requests = self.messages = -1


class Process(Protocol):
    """A process that runs `legroom.child`, first of a group of its own."""

    pipes: Pipes
    pid: int

    def wait(self) -> int:
        """Its exit status once it has ended; -N where signal N ended it."""
        ...

    def end(self) -> None:
        """End it and whatever else is in its group; may be called again."""
        ...


class NewProcess:
    """A process started anew: it imports torch by itself, and all its memory is its own."""

    def __init__(self, environment: Mapping[str, str], pipes: Pipes) -> None:
        self.pipes = pipes
        requests, messages, output = pipes.childs
        self._process = subprocess.Popen(
            [*COMMAND, str(requests), str(messages), str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=(requests, messages),
            # A group of its own: Ctrl-C reaches this process alone, and the whole group can be ended at once.
            process_group=0,
            env=environment,
        )
        self.pid = self._process.pid

    def wait(self) -> int:
        """Its exit status once it has ended."""
        return self._process.wait()

    def end(self) -> None:
        """End it and its group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.wait()
