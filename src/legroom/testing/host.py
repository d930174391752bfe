"""A machine as a test wants it."""

from legroom.host import Host
from legroom.host.gpus import Gpu
from legroom.host.limits import HostLimits

GIB = 2**30


def plant_host(
    *,
    num_cores: int = 2,
    memory_bytes: int = 64 * GIB,
    available_bytes: int | None = None,
    shm_bytes: int | None = 32 * GIB,
    gpus: tuple[Gpu, ...] = (),
    busy_cores: float = 0.0,
) -> Host:
    """A host with these limits, and no more.

    >>> plant_host(num_cores=16).limits.num_cores
    16
    """
    limits = HostLimits(
        num_cores=num_cores,
        cores_because="planted",
        memory_bytes=memory_bytes,
        available_bytes=memory_bytes if available_bytes is None else available_bytes,
        memory_because="planted",
        shm_bytes=shm_bytes,
    )
    why_none = None if gpus else "planted: there is none"
    return Host(limits=limits, gpus=gpus, why_no_gpu=why_none, busy_cores=lambda: busy_cores)


def plant_gpu(*, total_bytes: int = 80 * GIB) -> Gpu:
    """A card on which nothing runs yet."""
    return Gpu(
        name="Planted",
        index=0,
        uuid="u",
        total_bytes=total_bytes,
        free_bytes=total_bytes,
        driver="1",
        other_processes=0,
    )
