"""Times steps on a device to their end: by the host's clock on a CPU, by the device's own events on CUDA."""

import itertools
from collections.abc import Callable
from typing import Any, Protocol

import torch

from legroom.clock import Clock, monotonic

Step = Callable[[], Any]


class StepTimer(Protocol):
    """Tells the seconds of each of several steps."""

    clock: Clock
    """Of the host, for what is waited for."""

    def time(self, step: Step, num_steps: int) -> list[float]:
        """Seconds of each step."""
        ...

    def wait(self) -> None:
        """Wait until the device has done what it was given."""
        ...


def open_timer(device: torch.device, clock: Clock = monotonic) -> StepTimer:
    """The timer of that device."""
    return EventTimer(clock) if device.type == "cuda" else HostTimer(device, clock)


class HostTimer:
    """Reads the host's clock; other accelerators than CUDA are waited for after every step."""

    def __init__(self, device: torch.device, clock: Clock) -> None:
        self.device, self.clock = device, clock

    def time(self, step: Step, num_steps: int) -> list[float]:
        """Seconds of each step."""
        return [self._time_one(step) for _ in range(num_steps)]

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

    def time(self, step: Step, num_steps: int) -> list[float]:
        """Seconds from the end of one step to the end of the next."""
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(num_steps + 1)]  # type: ignore[no-untyped-call]
        marks[0].record()
        for mark in marks[1:]:
            step()
            mark.record()
        self.wait()
        return [first.elapsed_time(second) / 1e3 for first, second in itertools.pairwise(marks)]

    def wait(self) -> None:
        """Wait until the device has done what it was given."""
        torch.cuda.synchronize()
