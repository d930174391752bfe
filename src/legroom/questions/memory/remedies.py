"""What would make a job fit that does not, each with the bytes it would need."""

from collections.abc import Mapping
from dataclasses import dataclass

from legroom.host.cards import smallest_card, usable_bytes
from legroom.questions.memory.allocator.ledger import MemoryEstimate
from legroom.units import format_bytes

SHARDED = ("weights", "gradients", "optimizer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """One change, and what the step would take with it."""

    what: str
    needed_bytes: int
    fits: bool


def remedies(estimates: Mapping[str, MemoryEstimate], precision: str, batch_size: int, cap_bytes: int) -> list[Remedy]:
    """Changes to a step of that batch size, those that fit first. `estimates` has one for each precision traced."""
    parts, needed = estimates[precision].train.peak(batch_size).parts, estimates[precision].needed_bytes(batch_size)
    found: dict[str, float] = {}
    half = estimates["bf16"].needed_bytes(batch_size) if "bf16" in estimates else needed
    if half < needed:
        found["bf16 autocast"] = half
    if batch_size > 1:
        found[f"accumulation: {batch_size} passes of one sample"] = estimates[precision].needed_bytes(1)
    if parts.get("activations"):
        found["activation checkpointing (at the very best)"] = needed - parts["activations"]
    if parts.get("optimizer"):
        found["an optimizer without state (plain SGD)"] = needed - parts["optimizer"]
    found |= _sharded(needed, sum(parts.get(name, 0) for name in SHARDED), cap_bytes)
    made = [Remedy(what=what, needed_bytes=int(size), fits=size <= cap_bytes) for what, size in found.items()]
    made += _larger_card(needed)
    return sorted(made, key=lambda remedy: not remedy.fits)


def _sharded(total: float, shared: float, cap_bytes: int) -> dict[str, float]:
    """Weights, gradients and optimizer state split over the fewest devices that make it fit."""
    for num_devices in (2, 4, 8, 16, 64):
        size = total - shared + shared / num_devices
        if size <= cap_bytes:
            return {f"sharding (FSDP) over {num_devices} devices": size}
    return {"sharding (FSDP) over 64 devices": total - shared + shared / 64}


def _larger_card(needed: float) -> list[Remedy]:
    card = smallest_card(needed)
    if card is None:
        return []
    what = f"a larger card: {card} gives {format_bytes(usable_bytes(card))}"
    return [Remedy(what=what, needed_bytes=int(needed), fits=True)]
