"""The question about loading as the user's words, the job and this host make it."""

from legroom.errors import UsageError
from legroom.probes.gpus import read_gpus
from legroom.probes.limits import HostLimits
from legroom.records import JobDescription, LoadingQuestion
from legroom.setting_rules import PRECISIONS
from legroom.units import format_bytes

PATIENCE_SHARE = 0.9
"""Of the time after which a silent job is ended: the child gives up first, and can say at which sample."""
MEMORY_SHARE = 0.9


def check_words(device: str, batch_size: int | None, num_devices: int, precision: str | None) -> None:
    """Refuse what cannot be asked before the job is read."""
    for name, number in (("--batch-size", batch_size), ("--devices", num_devices)):
        if number is not None and number < 1:
            raise UsageError(f"{name} is {number}; it must be at least 1")
    if precision is not None and precision not in PRECISIONS:
        raise UsageError(f"There is no precision {precision!r}. Known: {', '.join(PRECISIONS)}")
    gpus, why_none = read_gpus()
    if device == "cuda" and not gpus:
        raise UsageError(f"CUDA was asked for, but there is no GPU here ({why_none}). Use --device cpu")


def loading_question(
    description: JobDescription,
    limits: HostLimits,
    *,
    device: str,
    batch_size: int | None,
    num_devices: int,
    precision: str | None,
    seed: int,
    timeout: float,
) -> LoadingQuestion:
    """The question; a batch that the data or the host cannot give is refused."""
    size = batch_size or int(description.baseline["batch_size"])
    limit = description.widest_batch or description.num_samples
    if batch_size is not None and limit is not None and size > limit:
        raise UsageError(f"--batch-size {size:,} is more than the {limit:,} samples there are. Name at most that")
    needed = size * description.sample_bytes[1]
    if needed > MEMORY_SHARE * limits.available_bytes:
        raise UsageError(
            f"A batch of {size:,} takes {format_bytes(needed)}, and {format_bytes(limits.available_bytes)} of host "
            "memory are free. Name a smaller --batch-size"
        )
    return LoadingQuestion(
        device=device,
        batch_size=size if limit is None else min(size, limit),
        precision=precision or description.baseline["precision"],
        num_devices=num_devices,
        num_cores=limits.num_cores,
        available_bytes=int(MEMORY_SHARE * limits.available_bytes),
        shm_bytes=limits.shm_bytes,
        seed=seed,
        patience_seconds=PATIENCE_SHARE * timeout,
    )
