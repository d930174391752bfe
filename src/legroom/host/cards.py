"""Memory of common GPUs, as their driver reports it, for questions about a card that is not here."""

import difflib

from legroom.errors import UsageError

MIB = 2**20

CONTEXT_BYTES = 528 * MIB
"""What a CUDA context takes before torch has anything: 527 MiB seen on an H200 (torch 2.11, CUDA 13)."""

CARDS = {
    "a10-24gb": 23028,
    "a100-40gb": 40960,
    "a100-80gb": 81920,
    "a40-48gb": 46068,
    "a6000-48gb": 49140,
    "b200-180gb": 183359,
    "gtx1080ti-11gb": 11264,
    "h100-80gb": 81559,
    "h200-141gb": 143771,
    "k80-12gb": 11441,
    "l4-24gb": 23034,
    "l40s-48gb": 46068,
    "p100-16gb": 16384,
    "rtx2080ti-11gb": 11264,
    "rtx3060-12gb": 12288,
    "rtx3080-10gb": 10240,
    "rtx3090-24gb": 24576,
    "rtx4080-16gb": 16376,
    "rtx4090-24gb": 24564,
    "rtx5090-32gb": 32607,
    "t4-16gb": 15360,
    "v100-16gb": 16384,
    "v100-32gb": 32768,
}
"""Total MiB as nvidia-smi prints it; the maker's "80 GB" is another number."""


CAPABILITIES = {
    "k80": 3,
    "p100": 6,
    "gtx": 6,
    "v100": 7,
    "t4": 7,
    "rtx20": 7,
    "h100": 9,
    "h200": 9,
    "b200": 10,
    "rtx50": 12,
}
"""Major compute capability by the start of a card's name; 8 (Ampere and Ada) for the others of the table."""


def capability_of(name: str) -> int:
    """Major compute capability of that card.

    >>> [capability_of(name) for name in ("V100-16gb", "a100-40gb", "h100-80gb", "rtx5090-32gb")]
    [7, 8, 9, 12]
    """
    return next((major for start, major in CAPABILITIES.items() if name.lower().startswith(start)), 8)


def usable_bytes(name: str) -> int:
    """Bytes torch may reserve on that card: its total less a CUDA context.

    >>> usable_bytes("A100-40GB") == (40960 - 528) * 2**20
    True
    """
    if name.lower() not in CARDS:
        close = [card for card in CARDS if card.startswith(name.lower())]
        close = close or difflib.get_close_matches(name.lower(), CARDS, n=1, cutoff=0.5)
        guess = f" Did you mean {' or '.join(close)}?" if close else ""
        raise UsageError(f"There is no card {name!r} in the table.{guess} Known: {', '.join(CARDS)}; or name --memory")
    return CARDS[name.lower()] * MIB - CONTEXT_BYTES


def smallest_card(num_bytes: float) -> str | None:
    """The smallest card that holds so many bytes; None if none does."""
    fitting = [name for name in CARDS if usable_bytes(name) >= num_bytes]
    return min(fitting, key=lambda name: CARDS[name]) if fitting else None
