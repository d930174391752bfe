"""Several requests at once, each in a child of its own, with a limit on its time: whatever engine starts them."""

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from legroom.clock import Clock, monotonic
from legroom.engines.base import Child, Engine
from legroom.environments import Environment
from legroom.errors import JobHung, LegroomError
from legroom.job_address import JobAddress
from legroom.requests import Request
from legroom.units import format_seconds

Tell = Callable[[Request[Any], str, float], None]
"""Called with a request, what its child is at, and the share of it that is done."""
MayJoin = Callable[[Request[Any], Sequence[Request[Any]]], bool]
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
    may_join: MayJoin = lambda request, running: True
    """Asked before a request is started beside others at its place, as memory may not hold both."""
    places: Sequence[Environment] = ({},)
    """What the environment of children has besides at each place, as the GPU that they see; the emptiest is taken."""


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
    waiting, running = list(requests), list[tuple[Request[Any], int]]()
    heard: queue.Queue[Any] = queue.Queue()
    cancelled = threading.Event()
    try:
        while waiting or running:
            while waiting and (place := _free_place(waiting[0], running, limits)) is not None:
                running.append((waiting.pop(0), place))
                _start(engine, address, *running[-1], heard, cancelled, limits, clock)
            match heard.get():
                case Outcome() as outcome:
                    running.remove(next(each for each in running if each[0] == outcome.request))
                    yield outcome
                case BaseException() as error:
                    raise error
                case request, message, share:
                    tell(request, message, share)
    finally:
        cancelled.set()  # what still runs ends at its next sign of life, or with this process


def _free_place(request: Request[Any], running: Sequence[tuple[Request[Any], int]], limits: Limits) -> int | None:
    """Where the request may run now: of the places that have room for it, the one with the fewest; None for nowhere."""
    if len(running) >= limits.together:
        return None
    beside = [[each for each, at in running if at == place] for place in range(len(limits.places))]
    free = [place for place, others in enumerate(beside) if not others or limits.may_join(request, others)]
    return min(free, key=lambda place: len(beside[place]), default=None)


def _start(
    engine: Engine,
    address: JobAddress,
    request: Request[Any],
    place: int,
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

    environment = {**(request.environment or {}), **limits.places[place]}
    child = engine.start(address, environment, alone=request.alone)
    threading.Thread(target=ask, args=(child,), daemon=True).start()
