"""The two clocks of a step on CUDA: what the card computes and what the host launches, neither waiting for the other.

A step is held: the card sleeps while the host launches a phase, and then runs its kernels without gaps, so that from
the end of the sleep to the end of the phase the time is the card's alone. A step that reads a value from the card
cannot be held and is traced: the profiler tells when each kernel began and ended, and between two of them the card
waited for the host, but for the moment that it takes from one to the next however many wait in line.
"""

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

from legroom.clock import Clock
from legroom.training.torch_internals import kernel_events, sleep_on_card

MORE, LEAST_SECONDS, MOST_SECONDS = 1.25, 0.005, 0.25
"""A sleep lasts so many times the launches of a whole step and these seconds more, and no longer than the last."""
AWAKE = 0.9
"""Launches that took more than this share of the sleep may have waited for it, and then tell nothing.

So it is where a step reads a value from the card, and where the driver's queue of about 1,000 launches is full: the
phases of a step are held one by one for its sake.
"""
NUM_CYCLES = 10_000_000
"""Of the sleep that tells the card's clock, some 5 ms."""
BETWEEN = ("forward", "backward")
"""Phases after which the step goes on."""
NEXT = 2_000
"""Nanoseconds from the end of a kernel to the start of the next that waits in line."""

Watched = Callable[[Callable[[str], None]], Callable[[], Any]]
"""Makes a step that tells of each phase that ends."""


@dataclass(frozen=True, slots=True)
class Held:
    """Seconds of one step by both clocks; 0 where they could not be told apart."""

    device_seconds: float = 0.0
    host_seconds: float = 0.0


def mark() -> torch.cuda.Event:
    """An event in the stream, now."""
    event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    event.record()
    return event


def seconds_between(first: torch.cuda.Event, second: torch.cuda.Event) -> float:
    """By the card's clock."""
    return float(first.elapsed_time(second)) / 1e3


def cycles_a_second() -> float:
    """How fast the card's clock runs, by a sleep."""
    first = mark()
    sleep_on_card(NUM_CYCLES)
    second = mark()
    torch.cuda.synchronize()
    return NUM_CYCLES / seconds_between(first, second)


def hold(watched: Watched, launch_seconds: float, cycles: float, clock: Clock) -> Held:
    """Run one step, each phase launched while the card sleeps; launch_seconds: what the host takes for a step."""
    holder = Holder(int(cycles * min(MOST_SECONDS, MORE * launch_seconds + LEAST_SECONDS)), clock)
    step = watched(holder.phase_ended)
    holder.begin()
    step()
    return holder.result()


class Holder:
    """Puts the card to sleep before each phase of a step, and reads both clocks at its end."""

    def __init__(self, num_cycles: int, clock: Clock) -> None:
        self.num_cycles, self.clock = num_cycles, clock
        self.phases: list[tuple[list[torch.cuda.Event], float]] = []
        """Marks before the sleep, after it and after the phase, with the seconds its launches took."""

    def begin(self) -> None:
        """Sleep; the clock starts when the sleep is launched."""
        torch.cuda.synchronize()
        before = mark()
        sleep_on_card(self.num_cycles)
        self.marks, self.started = [before, mark()], self.clock()

    def phase_ended(self, phase: str) -> None:
        """Note what the phase took; a batch lies on the card already, so "data" launches nothing."""
        if phase == "data":
            return
        launched = self.clock() - self.started
        self.phases.append(([*self.marks, mark()], launched))
        if phase in BETWEEN:
            self.begin()

    def result(self) -> Held:
        """The sums over the phases, where each was launched before the card woke."""
        torch.cuda.synchronize()
        for (before, after, _), launched in self.phases:
            if launched > AWAKE * seconds_between(before, after):
                return Held()
        device = sum(seconds_between(after, end) for (_, after, end), _ in self.phases)
        return Held(device, sum(launched for _, launched in self.phases))


def trace(step: Callable[[], Any]) -> float:
    """Seconds of the card in one step; 0 where it cannot be traced."""
    try:
        kernels = _kernels_of(step)
    except torch.OutOfMemoryError:
        raise
    except Exception:  # a job that traces its steps itself, or a driver that forbids it: then nothing is known
        return 0.0
    return busy_seconds(kernels)


def _kernels_of(step: Callable[[], Any]) -> list[tuple[int, int]]:
    """When each kernel began and ended; from the raw events, as to sort 10,000 into a tree takes 1 s."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the events of an earlier trace are gone
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
            step()
            torch.cuda.synchronize()
    on_card = [event for event in kernel_events(seen) if event.device_type().name == "CUDA"]
    return [(event.start_ns(), event.start_ns() + event.duration_ns()) for event in on_card]


def busy_seconds(kernels: Iterable[tuple[int, int]]) -> float:
    """Seconds in which a kernel ran or the next one was on its way; each began and ended at these nanoseconds.

    >>> busy_seconds([(0, 10_000), (5_000, 20_000), (21_000, 30_000), (70_000, 80_000)]) * 1e6
    42.0
    """
    ordered = sorted(kernels)
    total, ended = 0, ordered[0][0] if ordered else 0
    for start, end in ordered:
        total += min(NEXT, max(0, start - ended)) + max(0, end - max(start, ended))
        ended = max(ended, end)
    return total / 1e9
