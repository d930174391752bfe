"""What the card computes in a step that reads values from it, so that neither clock can be held apart: by a trace.

The profiler tells when each kernel began and ended. Between two of them the card waited for the host, but for the
moment that it takes from one to the next however many wait in line.
"""

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import torch

NEXT = 2_000
"""Nanoseconds from the end of a kernel to the start of the next that waits in line."""


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
    events = seen.profiler.kineto_results.events()
    on_card = [event for event in events if event.device_type().name == "CUDA"]
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
