"""Reads CIFAR-10 in the publisher's binary and python layouts, as one tensor of bytes."""

import codecs
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import torch

from legroom.errors import UsageError
from legroom.workloads.readers.files import find_file, read_bytes, unpack
from legroom.workloads.readers.published import CIFAR_FILES, PUBLISHED
from legroom.workloads.readers.tensors import Tensors

NUM_PIXELS = 32
NUM_CLASSES = 10
NUM_VALUES = 3 * NUM_PIXELS**2
"""Bytes of an image: all its red, then all its green, then all its blue ones."""
NUM_IN_FILE = 10_000
FILES = {"train": CIFAR_FILES[:-1], "test": CIFAR_FILES[-1:]}
PUBLISHED_AT = PUBLISHED["cifar10"].at
SOURCE = f"Get it again from {PUBLISHED_AT}"


def find_part(data: str, part: str) -> list[Path]:
    """The files of a part, in either layout, plain or the binary ones gzipped."""
    return [
        find_file(
            data,
            "cifar10",
            PUBLISHED["cifar10"].names[CIFAR_FILES.index(name)],
            num_bytes=NUM_IN_FILE * (1 + NUM_VALUES),
            published_at=PUBLISHED_AT,
        )
        for name in FILES[part]
    ]


def read_images(paths: list[Path]) -> Tensors:
    """Images, as bytes, and their classes."""
    images, labels = zip(*(_read_file(path) for path in paths), strict=True)
    return Tensors(torch.from_numpy(np.concatenate(images)), torch.from_numpy(np.concatenate(labels)))


def _read_file(path: Path) -> tuple[np.ndarray, np.ndarray]:
    values, labels = _read_binary(path) if path.suffix in (".bin", ".gz") else _read_python(path)
    if values.shape != (NUM_IN_FILE, NUM_VALUES) or labels.shape != (NUM_IN_FILE,):
        raise UsageError(
            f"{path} has {len(labels):,} labels and images of shape {values.shape}; "
            f"CIFAR-10's files have {NUM_IN_FILE:,} images of {NUM_VALUES:,} bytes. {SOURCE}"
        )
    if labels.max() >= NUM_CLASSES:
        raise UsageError(f"{path} has the label {labels.max()}; CIFAR-10 has the classes 0 to 9. {SOURCE}")
    return values.reshape(-1, 3, NUM_PIXELS, NUM_PIXELS), labels.astype(np.int64)


def _read_binary(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Rows of a label's byte and an image's."""
    content = unpack(path, SOURCE)
    expected = NUM_IN_FILE * (1 + NUM_VALUES)
    if len(content) != expected:
        difference = "truncated" if len(content) < expected else "another set"
        raise UsageError(
            f"{path} has {len(content):,} bytes unpacked; as published it has {expected:,}: it is {difference}. "
            f"{SOURCE}"
        )
    rows = np.frombuffer(content, np.uint8).reshape(NUM_IN_FILE, 1 + NUM_VALUES)
    return rows[:, 1:], rows[:, 0]


def _read_python(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """A pickled dictionary of an array and a list."""
    try:
        with path.open("rb") as file:
            found = _ArraysOnly(file, encoding="bytes").load()
        return np.asarray(found[b"data"]), np.asarray(found[b"labels"])
    except (pickle.UnpicklingError, EOFError, KeyError, TypeError, ValueError, IndexError) as error:
        num_bytes = len(read_bytes(path))
        reason = f"{type(error).__name__}: {error}"
        raise UsageError(
            f"{path} of {num_bytes:,} bytes is no file of CIFAR-10's python version, or truncated ({reason}); "
            f"as published it has 31.0 million. {SOURCE}"
        ) from None


def _dtype(kind: Any, align: Any = False, copy: Any = False) -> Any:
    return np.dtype(kind, bool(align), bool(copy))  # the files say 0 and 1, of which numpy 2.4 warns


class _ArraysOnly(pickle.Unpickler):
    """A pickle may run anything; this one makes arrays."""

    MADE = {  # noqa: RUF012
        "_reconstruct": np.empty(0).__reduce__()[0],
        "ndarray": np.ndarray,
        "dtype": _dtype,
        "encode": codecs.encode,
    }

    def find_class(self, module: str, name: str) -> Any:
        if module.split(".")[0] not in ("numpy", "_codecs") or name not in self.MADE:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which is no array")
        return self.MADE[name]
