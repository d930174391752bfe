"""The two clocks of a step on CUDA: what the card computes and what the host launches, neither waiting for the other.

The card is put to sleep, the host launches a phase of the step meanwhile, and the card then runs its kernels without
gaps: the time from the end of the sleep to the end of the phase is the card's alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from legroom.clock import Clock

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
    torch.cuda._sleep(NUM_CYCLES)  # type: ignore[no-untyped-call]
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
        torch.cuda._sleep(self.num_cycles)  # type: ignore[no-untyped-call]
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
