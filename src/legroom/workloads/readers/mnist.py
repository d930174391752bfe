"""Reads MNIST and sets like it from idx files: magic bytes, counts, then one byte a value."""

import math
import struct
from pathlib import Path

import numpy as np
import torch

from legroom.errors import UsageError
from legroom.workloads.readers.files import find_file, unpack
from legroom.workloads.readers.published import PUBLISHED
from legroom.workloads.readers.tensors import Tensors

NUM_PIXELS = 28
NUM_CLASSES = 10
NUM_IMAGES = {"train": 60_000, "t10k": 10_000}
"""Images of each part, as published."""
UNSIGNED_BYTES = 0x08
"""The magic's third byte for data of unsigned bytes, the only kind these sets use."""


def find_part(data: str, folder: str, part: str) -> tuple[Path, Path]:
    """The files of a part's images and labels."""
    num_images = NUM_IMAGES[part]

    def find(name: str, num_bytes: int) -> Path:
        return find_file(
            data, folder, (name, f"{name}.gz"), num_bytes=num_bytes, published_at=f"{PUBLISHED[folder].at}, packed"
        )

    return (
        find(f"{part}-images-idx3-ubyte", 16 + num_images * NUM_PIXELS**2),
        find(f"{part}-labels-idx1-ubyte", 8 + num_images),
    )


def read_images(images_path: Path, labels_path: Path, published_at: str) -> Tensors:
    """Images, as bytes, and their classes."""
    images = read_idx(images_path, 3, published_at)
    labels = read_idx(labels_path, 1, published_at)
    if images.shape[1:] != (NUM_PIXELS, NUM_PIXELS):
        size = "x".join(str(count) for count in images.shape[1:])
        raise UsageError(f"{images_path} has images of {size} pixels; this job needs {NUM_PIXELS}x{NUM_PIXELS}")
    if len(images) != len(labels):
        raise UsageError(
            f"{images_path} has {len(images):,} images and {labels_path} {len(labels):,} labels; "
            f"each image needs one. Get both again from {published_at}"
        )
    if len(labels) and int(labels.max()) >= NUM_CLASSES:
        raise UsageError(f"{labels_path} has the label {int(labels.max())}; this job has the classes 0 to 9")
    return Tensors(images, labels.long())


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
