"""Reads idx files, the format in which MNIST is published: magic bytes, counts, then one byte a value."""

import math
import struct
from pathlib import Path

import numpy as np
import torch

from legroom.errors import UsageError
from legroom.workloads.files import unpack

UNSIGNED_BYTES = 0x08
"""The magic's third byte for data of unsigned bytes, the only kind these sets use."""


def read_idx(path: Path, num_dimensions: int, published_at: str) -> torch.Tensor:
    """The file's array of bytes. The magic is two zero bytes, the kind of data and the number of dimensions."""
    source = f"Get it again from {published_at}"
    content = unpack(path, source)
    magic = bytes([0, 0, UNSIGNED_BYTES, num_dimensions])
    if content[:4] != magic[: len(content[:4])]:
        raise UsageError(
            f"{path} begins with the bytes {content[:4].hex(' ')}; "
            f"an idx file of {num_dimensions} dimensions begins with {magic.hex(' ')}. {source}"
        )
    header_bytes = 4 + 4 * num_dimensions
    if len(content) < header_bytes:
        raise UsageError(f"{path} ends within its first {header_bytes} bytes, which tell its size. {source}")
    shape = struct.unpack(f">{num_dimensions}I", content[4:header_bytes])
    expected = header_bytes + math.prod(shape)
    if len(content) != expected:
        size = " x ".join(f"{count:,}" for count in shape)
        raise UsageError(
            f"{path} has {len(content):,} bytes unpacked; it announces {size}, "
            f"which takes {expected:,}: it is {'truncated' if len(content) < expected else 'too long'}. {source}"
        )
    # bytearray, because torch warns of arrays that may not be written to.
    return torch.from_numpy(np.frombuffer(bytearray(content), np.uint8)[header_bytes:].reshape(shape))
