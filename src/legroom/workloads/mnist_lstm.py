"""MNIST read row by row by an LSTM, the smallest of the large-batch studies' recurrent jobs."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import nn

from legroom.errors import UsageError
from legroom.job import Job, Score, Settings
from legroom.workloads.classifiers import RowReader, Scaled, count_correct, mean_loss
from legroom.workloads.files import SYNTHETIC, find_file
from legroom.workloads.idx import read_idx
from legroom.workloads.published import PUBLISHED
from legroom.workloads.tensors import Tensors, collate

NUM_PIXELS = 28
NUM_CLASSES = 10
NUM_IMAGES = {"train": 60_000, "t10k": 10_000}
"""Images of each part, as published."""
CHANCE = {"mnist": 0.1135, "fashion-mnist": 0.1}
"""The share of the most frequent class in the test part, as published."""
SYNTHETIC_NOTE = "The data is a synthetic stand-in for MNIST: ten noisy patterns, so scores say nothing about MNIST."
LISTED = {
    "parameters": {"": 82_186},
    "sized_by": "hidden layers",
    "data": {"": "mnist", "images=fashion-mnist": "fashion-mnist"},
}
"""For `legroom jobs`, which reads it without importing: see `Workload`."""


def job(
    data: str = "",
    images: Literal["mnist", "fashion-mnist"] = "mnist",
    hidden: int = 128,
    layers: int = 1,
) -> Job:
    """MNIST or Fashion-MNIST (28x28, 60,000 + 10,000 images): an LSTM over their 28 rows, judged by test accuracy.

    data: folder of the idx files (default LEGROOM_DATA), or synthetic. images: mnist or fashion-mnist.
    hidden: LSTM units. layers: stacked LSTMs.
    """
    files = {} if data == SYNTHETIC else {part: find_part(data, images, part) for part in NUM_IMAGES}

    def read(part: str) -> Tensors:
        return read_images(*files[part], PUBLISHED[images].at) if files else make_images(NUM_IMAGES[part])

    def sized(hidden: int, num_layers: int) -> Callable[[], nn.Module]:
        return lambda: nn.Sequential(Scaled(), RowReader(NUM_PIXELS, hidden, num_layers, NUM_CLASSES))

    return Job(
        model=sized(hidden, layers),
        train_data=lambda: read("train"),
        valid_data=lambda: read("t10k"),
        collate=collate,
        loss=mean_loss,
        optimizer=lambda model, rate: torch.optim.SGD(model.parameters(), rate, momentum=0.9),
        score=Score(count_correct, goal="max", chance=CHANCE[images] if files else None),
        resize={"width": lambda width: sized(width, layers), "depth": lambda depth: sized(hidden, depth)},
        # Batch size and epochs: You et al. 2019, Large-Batch Training for LSTM and Beyond (arXiv:1901.08256).
        # Momentum and rate are our own measurement: docs/workloads.md.
        baseline=Settings(batch_size=128, learning_rate=0.1, schedule="polynomial:power=2", num_epochs=25),
        notes=() if files else (SYNTHETIC_NOTE,),
    )


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


def make_images(num_images: int) -> Tensors:
    """A stand-in of MNIST's shape: each class a pattern of its own, the same always, under noise."""
    patterns = np.random.default_rng(0).integers(0, 96, (NUM_CLASSES, NUM_PIXELS, NUM_PIXELS), dtype=np.uint8)
    chance = np.random.default_rng(num_images)
    labels = chance.integers(0, NUM_CLASSES, num_images)
    pixels = chance.integers(0, 160, (num_images, NUM_PIXELS, NUM_PIXELS), dtype=np.uint8)
    pixels += patterns[labels]
    return Tensors(torch.from_numpy(pixels), torch.from_numpy(labels))
