"""The machine legroom runs on, read once and passed on, so that tests plant one instead."""

import platform
from collections.abc import Callable
from dataclasses import dataclass

from legroom.host.gpus import Gpu, read_gpus
from legroom.host.limits import HostLimits, read_busy_cores, read_limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """Cores, memory, /dev/shm and GPUs that a job may use here."""

    limits: HostLimits
    gpus: tuple[Gpu, ...] = ()
    why_no_gpu: str | None = None
    busy_cores: Callable[[], float] = lambda: 0.0
    """How many of the cores other programs keep busy now."""

    @property
    def name(self) -> str:
        """This machine in a few words, the same each time it is read."""
        names = ", ".join(gpu.name for gpu in self.gpus) or "no GPU"
        cores = self.limits.num_cores
        return f"{platform.system()} {platform.machine()}, {cores} core{'s' * (cores != 1)}, {names}"


def read_host() -> Host:
    """The machine as it is now."""
    gpus, why_none = read_gpus()
    return Host(limits=read_limits(), gpus=tuple(gpus), why_no_gpu=why_none, busy_cores=read_busy_cores)
