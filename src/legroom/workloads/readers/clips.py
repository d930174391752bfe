"""Clips of video as bytes: windows of frames, cut to a square, from folders of frames, arrays or a generator."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch.utils.data import Dataset

from legroom.workloads.readers.class_folders import Sample, Skips, first_readable, list_frames
from legroom.workloads.readers.photos import decoder

LEAST_SIDE = 0.8
"""Least side of a training crop, as a share of the shorter side."""
TEXTURE_PIXELS = 512


class Source(Protocol):
    """Where clips come from."""

    @property
    def labels(self) -> Sequence[int]: ...

    def name(self, index: int) -> str: ...

    def num_frames(self, index: int) -> int: ...

    def read(self, index: int, frames: list[int]) -> torch.Tensor:
        """These frames, as frames x 3 x height x width bytes."""


class Clips(Dataset[tuple[torch.Tensor, int]]):
    """3 x frames x size x size bytes: any window, cut anywhere and mirrored in training; else the middle of it all."""

    def __init__(self, source: Source, num_frames: int, size: int, *, train: bool) -> None:
        self.source, self.num_frames, self.size, self.train = source, num_frames, size, train
        self.skips = Skips(len(source.labels))

    def __len__(self) -> int:
        return len(self.source.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return first_readable(self._read, self.source.name, index, self.skips)

    def _read(self, index: int) -> tuple[torch.Tensor, int]:
        time, side, x, y, mirror = torch.rand(5).tolist() if self.train else (0.5, 1.0, 0.5, 0.5, 1.0)
        length = self.source.num_frames(index)
        first = int(time * max(0, length - self.num_frames))
        # A clip that is too short starts over.
        frames = self.source.read(index, [(first + place) % length for place in range(self.num_frames)])
        square = cut_square(frames, LEAST_SIDE + side * (1 - LEAST_SIDE), x, y, self.size)
        moved = square.flip(3) if mirror < 0.5 else square
        return moved.transpose(0, 1).contiguous(), self.source.labels[index]


def cut_square(frames: torch.Tensor, share: float, x: float, y: float, size: int) -> torch.Tensor:
    """A square of that share of the shorter side, at that place of those there are, as `size` x `size` pixels."""
    height, width = frames.shape[2:]
    side = max(1, round(share * min(height, width)))
    top, left = round(y * (height - side)), round(x * (width - side))
    square = frames[:, :, top : top + side, left : left + side]
    if side == size:
        return square
    return torch.nn.functional.interpolate(square, (size, size), mode="bilinear", antialias=True)


class ClipFiles:
    """A .npy array of frames x height x width x 3 bytes, or a folder of frames in the order of their names."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        self.paths, self.labels = [path for path, _ in samples], [number for _, number in samples]

    def name(self, index: int) -> str:
        return str(self.paths[index])

    def num_frames(self, index: int) -> int:
        return len(self._open(self.paths[index]))

    def read(self, index: int, frames: list[int]) -> torch.Tensor:
        opened = self._open(self.paths[index])
        pixels = opened[frames] if isinstance(opened, np.ndarray) else np.stack([_decode(opened[at]) for at in frames])
        return torch.from_numpy(pixels).permute(0, 3, 1, 2)

    def _open(self, path: Path) -> Any:
        if path.is_dir():
            return list_frames(path)
        array = np.load(path, mmap_mode="r")
        if array.ndim != 4 or array.shape[3] != 3 or array.dtype != np.uint8 or not len(array):
            raise ValueError(
                f"an array of {array.dtype} {array.shape}; frames x height x width x 3 of uint8 are needed"
            )
        return array


class SyntheticClips:
    """Windows that move over a texture, in a direction and at a pace for each class; no two clips start alike."""

    def __init__(self, num_clips: int, num_classes: int, length: int, size: int) -> None:
        self.labels = [index % num_classes for index in range(num_clips)]
        self.num_classes, self.length, self.size = num_classes, length, size
        texture = np.random.default_rng(0).integers(0, 256, (3, 64, 64), dtype=np.uint8)
        self.texture = torch.from_numpy(texture.repeat(TEXTURE_PIXELS // 64, 1).repeat(TEXTURE_PIXELS // 64, 2))

    def name(self, index: int) -> str:
        return f"synthetic clip {index}"

    def num_frames(self, index: int) -> int:
        return self.length

    def read(self, index: int, frames: list[int]) -> torch.Tensor:
        angle = 2 * np.pi * self.labels[index] / self.num_classes
        room = TEXTURE_PIXELS - self.size
        places = [(index * 37 + 3 * frame * np.sin(angle), index * 53 + 3 * frame * np.cos(angle)) for frame in frames]
        corners = [(int(y) % room, int(x) % room) for y, x in places]
        return torch.stack([self.texture[:, y : y + self.size, x : x + self.size] for y, x in corners])


def scene(name: str) -> str:
    """What clips cut from one video share in UCF-101: held out together, else a clip's neighbour gives it away.

    >>> scene("v_Archery_g07_c03")
    'v_Archery_g07'
    """
    return re.sub(r"_c\d+$", "", name)


def _decode(path: Path) -> np.ndarray:
    with decoder().open(path) as image:
        return np.asarray(image.convert("RGB"))
