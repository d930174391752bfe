"""Memory of common GPUs as their driver reports it, and peaks as their maker does, for cards that are not here."""

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

PEAKS = {
    "a10-24gb": (31.2, 125.0, 600.0),
    "a100-40gb": (19.5, 312.0, 1555.0),
    "a100-80gb": (19.5, 312.0, 2039.0),
    "a40-48gb": (37.4, 149.7, 696.0),
    "a6000-48gb": (38.7, 154.8, 768.0),
    "b200-180gb": (75.0, 2250.0, 7700.0),
    "gtx1080ti-11gb": (11.3, 11.3, 484.0),
    "h100-80gb": (67.0, 989.5, 3350.0),
    "h200-141gb": (67.0, 989.5, 4800.0),
    "k80-12gb": (4.37, 4.37, 240.0),
    "l4-24gb": (30.3, 121.0, 300.0),
    "l40s-48gb": (91.6, 362.05, 864.0),
    "p100-16gb": (9.3, 18.7, 732.0),
    "rtx2080ti-11gb": (13.4, 53.8, 616.0),
    "rtx3060-12gb": (12.7, 25.5, 360.0),
    "rtx3080-10gb": (29.8, 59.5, 760.0),
    "rtx3090-24gb": (35.6, 71.0, 936.0),
    "rtx4080-16gb": (48.7, 97.5, 716.8),
    "rtx4090-24gb": (82.6, 165.2, 1008.0),
    "rtx5090-32gb": (104.8, 209.5, 1792.0),
    "t4-16gb": (8.1, 65.0, 320.0),
    "v100-16gb": (15.7, 125.0, 900.0),
    "v100-32gb": (15.7, 125.0, 900.0),
}
"""TFLOP/s in fp32 without tensor cores and in 16 bits with fp32 sums, dense; GB/s of memory.

As NVIDIA publishes them, taken down without its sheets at hand, and held against other sites for cards of data centres
alone: good for a forecast that is told with a range. B200 in HGX, H100 and H200 as SXM, K80: one of its two GPUs, P100
and T4 as PCIe, V100 as SXM2. Where a sheet tells numbers with sparsity, half of them. Cards whose 16 bits are no faster
have fp32 twice."""


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
    check_card(name)
    return CARDS[name.lower()] * MIB - CONTEXT_BYTES


def check_card(name: str) -> None:
    """Refuse a card that the table does not have."""
    if name.lower() not in CARDS:
        close = [card for card in CARDS if card.startswith(name.lower())]
        close = close or difflib.get_close_matches(name.lower(), CARDS, n=1, cutoff=0.5)
        guess = f" Did you mean {' or '.join(close)}?" if close else ""
        raise UsageError(f"There is no card {name!r} in the table.{guess} Known: {', '.join(CARDS)}")


def peaks_of(name: str, precision: str = "fp32") -> tuple[float, float]:
    """Operations and bytes a second of that card at best, as its maker tells them.

    >>> peaks_of("H100-80gb", "bf16"), peaks_of("t4-16gb")
    ((989500000000000.0, 3350000000000.0), (8100000000000.0, 320000000000.0))
    """
    check_card(name)
    single, half, gigabytes = PEAKS[name.lower()]
    return (single if precision == "fp32" else half) * 1e12, gigabytes * 1e9


def smallest_card(num_bytes: float) -> str | None:
    """The smallest card that holds so many bytes; None if none does."""
    fitting = [name for name in CARDS if usable_bytes(name) >= num_bytes]
    return min(fitting, key=lambda name: CARDS[name]) if fitting else None
