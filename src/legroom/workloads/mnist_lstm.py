"""MNIST read row by row by an LSTM, the smallest of the large-batch studies' recurrent jobs."""

from collections.abc import Callable
from typing import Literal

import numpy as np
import torch
from torch import nn

from legroom.job import Job, Score, Settings
from legroom.workloads.models.classifiers import RowLSTM, ScaleBytes, count_correct, mean_loss
from legroom.workloads.readers.files import SYNTHETIC
from legroom.workloads.readers.mnist import NUM_CLASSES, NUM_IMAGES, NUM_PIXELS, find_part, read_images
from legroom.workloads.readers.published import PUBLISHED
from legroom.workloads.readers.tensors import Tensors, collate

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
        return lambda: nn.Sequential(ScaleBytes(), RowLSTM(NUM_PIXELS, hidden, num_layers, NUM_CLASSES))

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


def make_images(num_images: int) -> Tensors:
    """A stand-in of MNIST's shape: each class a pattern of its own, the same always, under noise."""
    patterns = np.random.default_rng(0).integers(0, 96, (NUM_CLASSES, NUM_PIXELS, NUM_PIXELS), dtype=np.uint8)
    rng = np.random.default_rng(num_images)
    labels = rng.integers(0, NUM_CLASSES, num_images)
    pixels = rng.integers(0, 160, (num_images, NUM_PIXELS, NUM_PIXELS), dtype=np.uint8)
    pixels += patterns[labels]
    return Tensors(torch.from_numpy(pixels), torch.from_numpy(labels))
