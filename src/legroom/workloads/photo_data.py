"""Data sets of photographs: files, files drawn in memory, or pixels kept from an earlier look."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch.utils.data import Dataset

from legroom.workloads.cache import Prepared, load_or_make
from legroom.workloads.folders import Sample, list_files
from legroom.workloads.photos import CENTRE_SHARE, centre_box, cut, decoder, random_box
from legroom.workloads.skips import Skips, first_readable

LEAST_SHARE = 0.35
"""Least share of the photograph in a training crop; ImageNet's usual 0.08 starves small sets."""
NUM_DRAWN = 64
DRAWN_SIZE = (500, 375)
"""Distinct drawn photographs, and their size: ImageNet's median."""


class Source(Protocol):
    """Where photographs come from."""

    @property
    def labels(self) -> Sequence[int]: ...

    def name(self, index: int) -> str: ...

    def open(self, index: int) -> Any: ...


class Photos(Dataset[tuple[torch.Tensor, int]]):
    """Squares cut from photographs, as bytes: anywhere and mirrored every second time in training, else the centre."""

    def __init__(self, source: Source, size: int, *, train: bool) -> None:
        self.source, self.size, self.train = source, size, train
        self.skips = Skips(len(source.labels))

    def __len__(self) -> int:
        return len(self.source.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return first_readable(self._read, self.source.name, index, self.skips)

    def _read(self, index: int) -> tuple[torch.Tensor, int]:
        with self.source.open(index) as image:
            width, height = image.size
            box = random_box(width, height, LEAST_SHARE) if self.train else centre_box(width, height)
            pixels = cut(image, box, self.size)
        if self.train and torch.rand(()) < 0.5:
            pixels = pixels[:, ::-1]
        return torch.from_numpy(np.ascontiguousarray(pixels.transpose(2, 0, 1))), self.source.labels[index]


class FilesOnDisk:
    """Image files, opened anew at each look."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        self.paths, self.labels = [str(path) for path, _ in samples], [number for _, number in samples]

    def name(self, index: int) -> str:
        return self.paths[index]

    def open(self, index: int) -> Any:
        return decoder().open(self.paths[index])


class DrawnJpegs:
    """A few JPEG files in memory, over and over."""

    def __init__(self, files: list[bytes], labels: Sequence[int]) -> None:
        self.files, self.labels = files, labels

    def name(self, index: int) -> str:
        return f"drawn photograph {index}"

    def open(self, index: int) -> Any:
        return decoder().open(io.BytesIO(self.files[index % len(self.files)]))


class KeptPixels:
    """Decoded photographs one after another in one array, which all loader processes share in memory."""

    def __init__(self, prepared: Prepared, samples: Sequence[Sample]) -> None:
        self.paths, self.labels = [str(path) for path, _ in samples], [number for _, number in samples]
        self.pixels, self.shapes = prepared.arrays["pixels"], prepared.arrays["shapes"]
        self.starts = np.concatenate([[0], self.shapes.prod(1).cumsum()])

    def name(self, index: int) -> str:
        return self.paths[index]

    def open(self, index: int) -> Any:
        if not self.shapes[index].all():
            raise OSError("it could not be decoded when it was kept")
        flat = self.pixels[self.starts[index] : self.starts[index + 1]]
        return decoder().fromarray(flat.reshape(self.shapes[index]))


def keep_decoded(samples: Sequence[Sample], size: int) -> KeptPixels:
    """Each photograph decoded once, shrunk so that its centre has `size` pixels a side."""
    shorter = round(size / CENTRE_SHARE)
    paths = [path for path, _ in samples]

    def make() -> Prepared:
        decoded = [_decode(path, shorter) for path in paths]
        pixels = np.concatenate([photo.reshape(-1) for photo in decoded])
        return Prepared(arrays={"pixels": pixels, "shapes": np.array([photo.shape for photo in decoded])}, facts={})

    return KeptPixels(load_or_make([list_files(paths)], {"kind": "photos", "shorter": shorter}, make), samples)


def _decode(path: Path, shorter: int) -> np.ndarray:
    try:
        with decoder().open(path) as image:
            share = min(1.0, shorter / min(image.size))
            size = tuple(round(side * share) for side in image.size)
            image.draft("RGB", size)
            return np.asarray(image.convert("RGB").resize(size))
    except (OSError, SyntaxError, ValueError):
        return np.zeros((0, 0, 3), np.uint8)


def make_photos(num_photos: int, num_classes: int) -> DrawnJpegs:
    """Drawn photographs: a colour for each class under coarse and fine noise, so that decoding them takes as long."""
    chance = np.random.default_rng(num_photos)
    colours = np.random.default_rng(0).integers(0, 160, (num_classes, 1, 1, 3))
    labels = [index % NUM_DRAWN % num_classes for index in range(num_photos)]
    files = []
    for index in range(NUM_DRAWN):
        coarse = chance.integers(0, 64, (DRAWN_SIZE[1] // 5, DRAWN_SIZE[0] // 5, 3)).repeat(5, 0).repeat(5, 1)
        fine = chance.integers(0, 32, (DRAWN_SIZE[1], DRAWN_SIZE[0], 3))
        file = io.BytesIO()
        decoder().fromarray((colours[index % num_classes] + coarse + fine).astype(np.uint8)).save(file, "JPEG")
        files.append(file.getvalue())
    return DrawnJpegs(files, labels)
