"""Children as processes of this one, which imports neither torch nor the user's file."""

import base64
import collections
import contextlib
import json
import os
import select
import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from legroom.clock import Clock, monotonic
from legroom.engines.base import Child, Listen, ignore
from legroom.engines.guard import LATEST, MemoryGuard
from legroom.engines.nursery import nursery_for
from legroom.engines.process import NewProcess, Pipes, Process
from legroom.environments import Environment, apply_environment
from legroom.errors import JobCrashed, JobHung, NothingMeasured, OutOfMemory, error_named
from legroom.job_address import JobAddress
from legroom.requests import SAVING, Request, record_from, to_json
from legroom.units import format_bytes, format_seconds

Result = TypeVar("Result")
TAIL_LINES = 40
TELL_SECONDS = 1.0
"""How often a child is told to end."""
DEAF_SECONDS = 5.0
"""How long it may say nothing to that: what it is in hears no signals, and nothing more can be saved."""


class LocalEngine:
    """Runs each child as a process of its own: forked from one that has imported torch, or started anew."""

    def __init__(
        self, *, silence_seconds: float = 300.0, limit_bytes: int | None = None, platform: str = sys.platform
    ) -> None:
        if platform in ("win32", "cygwin"):
            raise NothingMeasured(
                "legroom runs a job in child processes with pipes and process groups that Windows does not have. "
                "legroom report, jobs and vocabulary work there; run the other commands in WSL 2 or on Linux"
            )
        self.silence_seconds = silence_seconds
        """How long a job may say nothing before it counts as hung."""
        self.limit_bytes = limit_bytes
        """Bytes of a child and its loader processes at which they are ended before they drag the machine down."""

    def start(self, address: JobAddress, environment: Environment, *, alone: bool = False) -> Child:
        """A child that begins to build the job at once."""
        process = start_process(apply_environment(environment, os.environ), alone=alone)
        return LocalChild(address, process, silence_seconds=self.silence_seconds, limit_bytes=self.limit_bytes)


def start_process(environment: Mapping[str, str], *, alone: bool) -> Process:
    """A process with exactly that environment, forked where that can be done and is allowed."""
    pipes = Pipes()
    try:
        nursery = None if alone else nursery_for(environment)
        forked = None if nursery is None else nursery.fork(environment, pipes)
        return forked or NewProcess(environment, pipes)
    except BaseException:
        pipes.close()
        os.close(pipes.output)
        raise
    finally:
        pipes.hand_over()


class LocalChild:
    """One child process: requests go down one pipe as JSON lines, messages come up another."""

    def __init__(
        self,
        address: JobAddress,
        process: Process,
        *,
        silence_seconds: float,
        limit_bytes: int | None,
        clock: Clock = monotonic,
    ) -> None:
        self.silence_seconds, self.limit_bytes, self.clock = silence_seconds, limit_bytes, clock
        self._process, self._pipes = process, process.pipes
        self._guard = None if limit_bytes is None else MemoryGuard(process.pid, limit_bytes)
        self._buffer = b""
        self._phase: str | None = None
        """What the child last said it was at."""
        self._num_kernel_kills = _num_kernel_kills()
        self._tail: collections.deque[bytes] = collections.deque(maxlen=TAIL_LINES)
        self._drainer = threading.Thread(target=self._drain, daemon=True)
        self._drainer.start()
        self._send(
            {
                "text": address.text,
                "options": dict(address.options),
                "pickled": _encode(address.pickled),
                "folder": address.folder,
            }
        )

    def ask(self, request: Request[Result], listen: Listen = ignore) -> Result:
        """Send the request and wait for its answer, watching for silence, death and hunger."""
        self._send(to_json(request))
        try:
            return self._answer(listen)  # type: ignore[no-any-return]
        except KeyboardInterrupt:
            if not request.interruptible:
                raise
            listen = _spared(listen)
            listen("saving; Ctrl-C again ends at once", 1.0)
            result = self._end_early(listen)
            if result is None:
                raise KeyboardInterrupt from None
            return result  # type: ignore[no-any-return]
        except JobHung as hung:
            result = self._end_early(_spared(listen)) if request.interruptible else None
            self.close()
            raise JobHung(f"{hung}{getattr(result, 'last_words', '')}", details=self._printed()) from None

    def _answer(self, listen: Listen) -> Any:
        heard = self.clock()
        while self.clock() - heard <= self.silence_seconds:
            message = self._receive()
            if message is not None:
                heard = self.clock()
                if (result := self._read(message, listen)) is not None:
                    return result
            self._check_memory()
        raise JobHung(
            f"The job did nothing for {format_seconds(self.silence_seconds)} and was ended. "
            "If a step of yours takes longer, raise --timeout"
        )

    def _read(self, message: dict[str, Any], listen: Listen) -> Any:
        """The result, if the message holds one; an error it holds is raised, a beat told."""
        self._phase = message.get("beat")
        if message.get("share") is not None:
            listen(message["beat"], message["share"])
        if "error" in message:
            error = message["error"]
            raise error_named(error["type"])(error["message"], details=error["details"])
        return record_from(message["result"]) if "result" in message else None

    def _end_early(self, listen: Listen) -> Any:
        """Tell the child to save and answer, again and again; None where it has nothing to save or does not hear.

        It may take its time while it saves.
        """
        heard, told = self.clock(), float("-inf")
        while self.clock() - heard <= (self.silence_seconds if self._phase == SAVING else DEAF_SECONDS):
            if self.clock() - told > TELL_SECONDS:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._process.pid, signal.SIGTERM)
                told = self.clock()
            try:
                message = self._receive()
            except JobCrashed:  # it had not begun yet
                return None
            if message is not None:
                heard = self.clock()
                if (result := self._read(message, listen)) is not None:
                    return result
        return None

    def close(self) -> None:
        """End the child, its loader workers and whatever else is in its group."""
        self._process.end()
        self._drainer.join(timeout=1.0)  # a process that left the group may hold the pipe open for ever
        self._pipes.close()

    def _send(self, message: dict[str, Any]) -> None:
        # A child that died between two requests is found by the next read, which knows how to tell its end.
        with contextlib.suppress(BrokenPipeError):
            _write_all(self._pipes.requests, json.dumps(message).encode() + b"\n")

    def _receive(self) -> dict[str, Any] | None:
        """The next message, or None if none came until memory should be looked at again."""
        if b"\n" not in self._buffer:
            wait_seconds = self._guard.wait_seconds if self._guard else LATEST
            if not select.select([self._pipes.messages], [], [], wait_seconds)[0]:
                return None
            chunk = os.read(self._pipes.messages, 1 << 16)
            if not chunk:
                raise self._death()
            self._buffer += chunk
        line, newline, rest = self._buffer.partition(b"\n")
        if not newline:
            return None
        self._buffer = rest
        return json.loads(line)  # type: ignore[no-any-return]

    def _check_memory(self) -> None:
        held = self._guard and self._guard.excess()
        if held:
            self.close()
            raise OutOfMemory(
                f"The job grew to {format_bytes(held)}, loader processes included, past the "
                f"{format_bytes(self.limit_bytes or 0)} there are, and was ended",
                details=self._printed(),
            )

    def _death(self) -> Exception:
        """What the end of the child means."""
        code = self._process.wait()
        killed_by_kernel = code == -signal.SIGKILL and _num_kernel_kills() > self._num_kernel_kills
        self.close()
        details = self._printed()
        if killed_by_kernel:
            return OutOfMemory("The kernel ended the job for want of memory", details=details)
        if code < 0:
            return JobCrashed(f"The job's process died of {signal.Signals(-code).name}", details=details)
        return JobCrashed(f"The job's process ended itself with exit status {code}", details=details)

    def _printed(self) -> str:
        return b"".join(self._tail).decode(errors="replace")

    def _drain(self) -> None:
        """Take what the job prints, for ever if need be, and keep the end of it."""
        with open(self._pipes.output, "rb") as stream:
            while chunk := stream.readline(1 << 12):
                self._tail.append(chunk)


def _spared(listen: Listen) -> Listen:
    """The same, where nobody may be left to hear it: a terminal that was closed is why the run is to be saved."""

    def tell(message: str, share: float) -> None:
        with contextlib.suppress(OSError):
            listen(message, share)

    return tell


def _write_all(descriptor: int, content: bytes) -> None:
    while content:
        content = content[os.write(descriptor, content) :]


def _encode(pickled: bytes | None) -> str | None:
    return None if pickled is None else base64.b64encode(pickled).decode()


def _num_kernel_kills() -> int:
    """How many processes the kernel has ended for want of memory, in this cgroup or on this machine."""
    for path in ("/sys/fs/cgroup/memory.events", "/proc/vmstat"):
        try:
            words = Path(path).read_text().split()
        except OSError:
            continue
        if "oom_kill" in words:
            return int(words[words.index("oom_kill") + 1])
    return 0
