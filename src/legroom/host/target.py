"""Where a question is about: this host, the GPU here, or a card that is not here; and how much memory it gives."""

from dataclasses import dataclass

from legroom.errors import UsageError
from legroom.host import Host
from legroom.host.cards import usable_bytes
from legroom.units import format_bytes, parse_bytes

HOST_SHARE = 0.9
"""Share of the host memory now free that a job may use where no budget is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A device and its memory."""

    device: str
    budget_bytes: int
    """0: all that the GPU has free, which only a process on it can tell."""
    is_here: bool
    """Whether things can be run there; elsewhere they are estimated."""
    is_named: bool
    """Whether the user named the memory or the card."""
    card: str | None = None
    """The card's name in our table, where one was named."""


def check_device(device: str) -> None:
    """Refuse a word that names no device."""
    if device not in ("auto", "cpu", "cuda"):
        raise UsageError(f"There is no device {device!r}. Known: auto, cpu, cuda")


def check_cuda(host: Host, device: str) -> None:
    """Refuse a GPU that is not here, where nothing can be estimated for it."""
    if device == "cuda" and not host.gpus:
        raise UsageError(f"CUDA was asked for, but there is no GPU here ({host.why_no_gpu}). Use --device cpu")


def choose_target(host: Host, device: str, memory: int | str | None = None, card: str | None = None) -> Target:
    """What the user's words mean on this machine."""
    check_device(device)
    if memory is not None and card is not None:
        raise UsageError("--memory and --card both say how much memory there is; give one")
    if card is not None and device == "cpu":
        raise UsageError("--card names a GPU, --device cpu the host; give one")
    budget = parse_bytes(memory) if isinstance(memory, str) else memory
    if card is not None:
        budget = usable_bytes(card)
    if budget is not None and budget <= 0:
        raise UsageError(f"--memory {memory} leaves no memory at all. Write a size such as 1GiB")
    limits = host.limits
    if device == "cpu" or (device == "auto" and not host.gpus and card is None):
        if budget is not None and budget > limits.memory_bytes:
            raise UsageError(
                f"--memory {format_bytes(budget)} is more than this host has: {format_bytes(limits.memory_bytes)} "
                f"({limits.memory_because}). Name less; for a GPU that is not here add --device cuda"
            )
        free = int(HOST_SHARE * limits.available_bytes)
        return Target(device="cpu", budget_bytes=budget or free, is_here=True, is_named=budget is not None)
    if not host.gpus and budget is None:
        raise UsageError(
            f"CUDA was asked for, but there is no GPU here ({host.why_no_gpu}) and no memory to estimate for. "
            "Add --memory 16GiB or --card NAME for an estimate, or use --device cpu"
        )
    return Target(
        device="cuda", budget_bytes=budget or 0, is_here=bool(host.gpus), is_named=budget is not None, card=card
    )
