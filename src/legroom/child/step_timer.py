"""Times steps on a device to their end: by the host's clock on a CPU, by the device's own events on CUDA."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import torch

from legroom.child.cuda_clocks import Held, Watched, cycles_a_second, hold, trace
from legroom.clock import Clock, monotonic

Step = Callable[[], Any]
LONG = 3.0
"""Steps longer than so many times their launches are the card's alone: one need not be held to know it."""
UNHINDERED = 1.5
"""Launches up to so many times the fastest did not wait for room in the driver's queue."""


class HostTimer:
    """Reads the host's clock; other accelerators than CUDA are waited for after every step."""

    def __init__(self, device: torch.device, clock: Clock) -> None:
        self.device, self.clock = device, clock

    def time(self, step: Step, num_steps: int) -> list[float]:
        """Seconds of each step."""
        return [self._time_one(step) for _ in range(num_steps)]

    def both_clocks(self, watched: Watched, step_seconds: float) -> Held:
        """What device and host need alone is unknown: a host that waits after every step shows one clock only."""
        return Held()

    def wait(self) -> None:
        """Wait until the device has done what it was given; a CPU has."""
        if self.device.type != "cpu":
            torch.accelerator.synchronize(self.device)

    def _time_one(self, step: Step) -> float:
        self.wait()
        started = self.clock()
        step()
        self.wait()
        return self.clock() - started


class EventTimer:
    """Reads CUDA events between the steps: the host runs ahead as it does in training, and is waited for once."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.launch_seconds = math.inf
        """What the host takes for a step at best, whatever the size."""
        self._first_launch = math.inf
        """What it took for the first of the steps timed last, when the card had nothing else to do."""
        self._cycles = 0.0

    def time(self, step: Step, num_steps: int) -> list[float]:
        """Seconds from the end of one step to the end of the next."""
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(num_steps + 1)]  # type: ignore[no-untyped-call]
        marks[0].record()
        launches = []
        for mark in marks[1:]:
            started = self.clock()
            step()
            launches.append(self.clock() - started)
            mark.record()
        self.wait()
        self._first_launch, self.launch_seconds = launches[0], min(self.launch_seconds, *launches)
        return [first.elapsed_time(second) / 1e3 for first, second in itertools.pairwise(marks)]

    def both_clocks(self, watched: Watched, step_seconds: float) -> Held:
        """Hold one step, or take the step for the device's own where its launches are a small part of it.

        A step that cannot be held is traced: that tells the device's seconds alone.
        """
        if step_seconds > LONG * self.launch_seconds:
            free = self._first_launch < UNHINDERED * self.launch_seconds
            return Held(step_seconds, self._first_launch if free else 0.0)
        self._cycles = self._cycles or cycles_a_second()
        held = hold(watched, self.launch_seconds, self._cycles, self.clock)
        return held if held.device_seconds else Held(trace(watched(lambda phase: None)))

    def wait(self) -> None:
        """Wait until the device has done what it was given."""
        torch.cuda.synchronize()


StepTimer = HostTimer | EventTimer


def open_timer(device: torch.device, clock: Clock = monotonic) -> StepTimer:
    """The timer of that device."""
    return EventTimer(clock) if device.type == "cuda" else HostTimer(device, clock)
