"""Reads how much memory this process takes, of the host or of a GPU."""

import os
import resource
import sys
from pathlib import Path
from typing import Any

import torch

from legroom.child.built_job import BuiltJob
from legroom.environments import Allocator
from legroom.errors import NothingMeasured
from legroom.host.process_memory import resident_bytes, tree_bytes, tree_of
from legroom.requests import CardMemory, ReadCard
from legroom.training.torch_internals import expand_segments


class HostMeter:
    """Memory of this process; loader processes that it has started are told of apart."""

    @staticmethod
    def loader_bytes() -> int:
        """What the processes below this one hold beside what it holds itself; 10 to 40 ms where there are some."""
        pids = tree_of(os.getpid())
        return max(0, tree_bytes(pids) - resident_bytes(os.getpid())) if len(pids) > 1 else 0

    def take_peak(self) -> int:
        """The kernel's own high-water mark, set back to the present size by writing 5 to clear_refs (proc(5))."""
        try:
            status = Path("/proc/self/status").read_text()
            Path("/proc/self/clear_refs").write_text("5")
            return int(status.partition("VmHWM:")[2].split()[0]) * 1024
        except OSError:
            # Elsewhere the mark only rises: right as long as sizes are tried in growing order.
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            return peak if sys.platform == "darwin" else peak * 1024

    def end_step(self) -> None:
        """Nothing to note on a host."""

    def reserved(self) -> dict[str, int]:
        """Nothing: resident memory is all there is."""
        return {}

    def report(self) -> dict[str, Any]:
        """A host's allocator does not retry, nor does anything lie outside."""
        return {"outcome": "measured"}


class CardMeter:
    """Memory of the GPU as torch's allocator counts it, and as the driver does."""

    first_used_bytes: int | None = None
    """What the driver saw in use before the job put anything there; read once in a process."""

    def __init__(self, cap_bytes: int | None) -> None:
        card = card_memory()
        torch.cuda.empty_cache()  # what an earlier size left behind would count as this one's
        if cap_bytes is not None:
            torch.cuda.set_per_process_memory_fraction(min(1.0, cap_bytes / card.total_bytes))
        if CardMeter.first_used_bytes is None:
            CardMeter.first_used_bytes = card.total_bytes - card.free_bytes - torch.cuda.memory_reserved()
        torch.cuda.reset_peak_memory_stats()
        self._reserved: list[int] = []
        self._retries: list[int] = [_num_retries()]
        self._top_reserved = 0

    def take_peak(self) -> int:
        """Allocated bytes; the host knows them without waiting for the card."""
        peak = torch.cuda.max_memory_allocated()
        self._top_reserved = max(self._top_reserved, torch.cuda.max_memory_reserved())
        torch.cuda.reset_peak_memory_stats()
        return peak

    def end_step(self) -> None:
        """Note what torch holds and how often it had to ask twice."""
        self._reserved.append(torch.cuda.memory_reserved())
        self._retries.append(_num_retries())

    def reserved(self) -> dict[str, int]:
        """The most that torch took from the card so far, under its name among the phases: this is what runs out."""
        return {"reserved": self._top_reserved}

    def report(self) -> dict[str, Any]:
        """What a record of peaks says of the card alone."""
        free, total = torch.cuda.mem_get_info()
        return {
            # The first two steps may shuffle blocks; later ones that do so thrash.
            "outcome": "retried" if len(self._retries) > 3 and self._retries[-1] > self._retries[2] else "measured",
            "step_reserved_bytes": self._reserved,
            # What the driver sees beyond torch's own and what was there before.
            "outside_bytes": max(0, total - free - torch.cuda.memory_reserved() - (CardMeter.first_used_bytes or 0)),
        }


Meter = HostMeter | CardMeter


def open_meter(device: str, cap_bytes: int | None) -> Meter:
    """The meter of the device, with its cap in force."""
    return HostMeter() if device == "cpu" else CardMeter(cap_bytes)


def _num_retries() -> int:
    return int(torch.cuda.memory_stats().get("num_alloc_retries", 0))


def use_allocator(name: Allocator) -> None:
    """Have torch take memory from the card in that way from now on; what it holds must have been given back."""
    expand_segments(name == "expandable")


def read_card(request: ReadCard, built: BuiltJob) -> CardMemory:
    """The GPU of this process."""
    return card_memory()


def card_memory() -> CardMemory:
    """The GPU of this process, once its context stands."""
    if not torch.cuda.is_available():
        raise NothingMeasured(
            "torch sees no GPU in the child process, though the driver lists one. "
            "Install a torch build for CUDA, or use --device cpu"
        )
    torch.cuda.init()  # type: ignore[no-untyped-call]
    free, total = torch.cuda.mem_get_info()
    properties = torch.cuda.get_device_properties(0)
    return CardMemory(name=properties.name, total_bytes=total, free_bytes=free, capability=properties.major)
