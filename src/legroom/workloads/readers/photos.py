"""Photographs as squares of bytes: from files, from JPEGs made in memory, or from decoded pixels in the cache."""

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch.utils.data import Dataset

from legroom.errors import UsageError
from legroom.workloads.readers.cache import Prepared, load_or_make
from legroom.workloads.readers.class_folders import Sample, Skips, first_readable, list_files

LEAST_SHARE = 0.35
"""Least share of the photograph in a training crop; ImageNet's usual 0.08 starves small sets."""
NUM_SYNTHETIC = 64
SYNTHETIC_SIZE = (500, 375)
"""Distinct synthetic photographs, and their size: ImageNet's median."""
CENTRE_SHARE = 0.875
"""Side of the crop that is judged, as a share of the shorter side: the usual 224 of 256."""

Box = tuple[float, float, float, float]
"""Left, upper, right and lower edge in pixels."""


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


class SyntheticJpegs:
    """A few JPEG files in memory, over and over."""

    def __init__(self, files: list[bytes], labels: Sequence[int]) -> None:
        self.files, self.labels = files, labels

    def name(self, index: int) -> str:
        return f"synthetic photograph {index}"

    def open(self, index: int) -> Any:
        return decoder().open(io.BytesIO(self.files[index % len(self.files)]))


class CachedPixels:
    """Decoded photographs one after another in one array, which all loader processes share in memory."""

    def __init__(self, prepared: Prepared, samples: Sequence[Sample]) -> None:
        self.paths, self.labels = [str(path) for path, _ in samples], [number for _, number in samples]
        self.pixels, self.shapes = prepared.arrays["pixels"], prepared.arrays["shapes"]
        self.starts = np.concatenate([[0], self.shapes.prod(1).cumsum()])

    def name(self, index: int) -> str:
        return self.paths[index]

    def open(self, index: int) -> Any:
        if not self.shapes[index].all():
            raise OSError("it could not be decoded when it was cached")
        flat = self.pixels[self.starts[index] : self.starts[index + 1]]
        return decoder().fromarray(flat.reshape(self.shapes[index]))


def cache_decoded(samples: Sequence[Sample], size: int) -> CachedPixels:
    """Each photograph decoded once, shrunk so that its centre has `size` pixels a side."""
    shorter = round(size / CENTRE_SHARE)
    paths = [path for path, _ in samples]

    def make() -> Prepared:
        decoded = [_decode(path, shorter) for path in paths]
        pixels = np.concatenate([photo.reshape(-1) for photo in decoded])
        return Prepared(arrays={"pixels": pixels, "shapes": np.array([photo.shape for photo in decoded])}, facts={})

    return CachedPixels(load_or_make([list_files(paths)], {"kind": "photos", "shorter": shorter}, make), samples)


def _decode(path: Path, shorter: int) -> np.ndarray:
    try:
        with decoder().open(path) as image:
            share = min(1.0, shorter / min(image.size))
            size = tuple(round(side * share) for side in image.size)
            image.draft("RGB", size)
            return np.asarray(image.convert("RGB").resize(size))
    except (OSError, SyntaxError, ValueError):
        return np.zeros((0, 0, 3), np.uint8)


def make_photos(num_photos: int, num_classes: int) -> SyntheticJpegs:
    """Generated photographs: a colour for each class under coarse and fine noise, so that decoding takes as long."""
    rng = np.random.default_rng(num_photos)
    colours = np.random.default_rng(0).integers(0, 160, (num_classes, 1, 1, 3))
    labels = [index % NUM_SYNTHETIC % num_classes for index in range(num_photos)]
    files = []
    for index in range(NUM_SYNTHETIC):
        coarse = rng.integers(0, 64, (SYNTHETIC_SIZE[1] // 5, SYNTHETIC_SIZE[0] // 5, 3)).repeat(5, 0).repeat(5, 1)
        fine = rng.integers(0, 32, (SYNTHETIC_SIZE[1], SYNTHETIC_SIZE[0], 3))
        file = io.BytesIO()
        decoder().fromarray((colours[index % num_classes] + coarse + fine).astype(np.uint8)).save(file, "JPEG")
        files.append(file.getvalue())
    return SyntheticJpegs(files, labels)


def decoder() -> Any:
    """Pillow's module `Image`."""
    try:
        from PIL import Image
    except ImportError:
        raise UsageError("Images are decoded by Pillow, which is missing here: pip install pillow") from None
    return Image


def cut(image: Any, box: Box, size: int) -> np.ndarray:
    """The box of an opened image as `size` x `size` x 3 bytes.

    A JPEG is decoded at a half, a quarter or an eighth where that still has as many pixels as asked for.
    """
    width, height = image.size
    image.draft("RGB", (math.ceil(width * size / (box[2] - box[0])), math.ceil(height * size / (box[3] - box[1]))))
    across, down = image.size[0] / width, image.size[1] / height
    scaled = (box[0] * across, box[1] * down, box[2] * across, box[3] * down)
    colours = image if image.mode == "RGB" else image.convert("RGB")
    return np.asarray(colours.resize((size, size), decoder().Resampling.BILINEAR, box=scaled))


def centre_box(width: int, height: int) -> Box:
    """The square in the middle that is judged."""
    side = CENTRE_SHARE * min(width, height)
    left, upper = (width - side) / 2, (height - side) / 2
    return left, upper, left + side, upper + side


def random_box(width: int, height: int, least_share: float) -> Box:
    """A part of at least that share of the area, its sides up to 3:4, anywhere; drawn by torch.

    Szegedy et al. 2014 (arXiv:1409.4842), section 6.
    """
    share, lean, x, y = torch.rand(4).tolist()
    area = width * height * (least_share + share * (1 - least_share))
    ratio = math.exp((2 * lean - 1) * math.log(4 / 3))
    across, down = min(width, math.sqrt(area * ratio)), min(height, math.sqrt(area / ratio))
    left, upper = x * (width - across), y * (height - down)
    return left, upper, left + across, upper + down
