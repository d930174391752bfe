"""Several requests at once, each in a child of its own, with a limit on its time: whatever engine starts them."""

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from legroom.clock import Clock, monotonic
from legroom.engines.base import Child, Engine
from legroom.errors import JobHung, LegroomError
from legroom.job_address import JobAddress
from legroom.requests import Request
from legroom.units import format_seconds

Tell = Callable[[Request[Any], str, float], None]
"""Called with a request, what its child is at, and the share of it that is done."""
Place = Callable[[Request[Any], Sequence[Request[Any]]], bool]
"""Whether a request may run beside those."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a request."""

    request: Request[Any]
    result: Any = None
    error: LegroomError | None = None
    """In place of a result: the failure of this request alone."""
    seconds: float


class _Cancelled(Exception):
    """Nobody waits for the answer any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How many at once, and how long each."""

    together: int = 1
    seconds: float | None = None
    """Of one request, start included. It is ended at the next sign of life after that; a silent one by its engine."""
    may_join: Place = lambda request, running: True
    """Asked before a request is started beside others, as memory may not hold both."""


def ask_all(
    engine: Engine,
    address: JobAddress,
    requests: Sequence[Request[Any]],
    *,
    limits: Limits,
    tell: Tell = lambda request, message, share: None,
    clock: Clock = monotonic,
) -> Iterator[Outcome]:
    """Outcomes as they come. Children are started from this thread: the kernel ends them with the one that did."""
    waiting, running = list(requests), list[Request[Any]]()
    heard: queue.Queue[Any] = queue.Queue()
    cancelled = threading.Event()
    try:
        while waiting or running:
            while waiting and len(running) < limits.together and _may_start(waiting[0], running, limits):
                running.append(waiting.pop(0))
                _start(engine, address, running[-1], heard, cancelled, limits, clock)
            match heard.get():
                case Outcome() as outcome:
                    running.remove(outcome.request)
                    yield outcome
                case BaseException() as error:
                    raise error
                case request, message, share:
                    tell(request, message, share)
    finally:
        cancelled.set()  # what still runs ends at its next sign of life, or with this process


def _may_start(request: Request[Any], running: Sequence[Request[Any]], limits: Limits) -> bool:
    return not running or limits.may_join(request, running)


def _start(
    engine: Engine,
    address: JobAddress,
    request: Request[Any],
    heard: "queue.Queue[Any]",
    cancelled: threading.Event,
    limits: Limits,
    clock: Clock,
) -> None:
    began = clock()

    def listen(message: str, share: float) -> None:
        if cancelled.is_set():
            raise _Cancelled
        if limits.seconds is not None and clock() - began > limits.seconds:
            raise JobHung(f"It was not done after {format_seconds(limits.seconds)} and was ended")
        heard.put((request, message, share))

    def ask(child: Child) -> None:
        try:
            with contextlib.closing(child):
                result = child.ask(request, listen)
            heard.put(Outcome(request=request, result=result, seconds=clock() - began))
        except LegroomError as error:
            heard.put(Outcome(request=request, error=error, seconds=clock() - began))
        except _Cancelled:
            pass
        except BaseException as error:  # a fault of ours: told where somebody sees it
            heard.put(error)

    child = engine.start(address, request.environment or {}, alone=request.alone)
    threading.Thread(target=ask, args=(child,), daemon=True).start()
