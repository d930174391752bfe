"""CIFAR-10 and the ResNet-18 of 11,173,962 parameters: the job of most studies of large batches and many devices."""

from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from legroom.job import Job, Score, Settings
from legroom.workloads.models.classifiers import CropAndFlip, Normalize, count_correct, mean_loss
from legroom.workloads.models.resnet import ResNet
from legroom.workloads.readers.cifar import FILES, NUM_CLASSES, NUM_IN_FILE, NUM_PIXELS, find_part, read_images
from legroom.workloads.readers.files import SYNTHETIC
from legroom.workloads.readers.tensors import Tensors, collate

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
"""Of each colour over the training images."""
SYNTHETIC_NOTE = (
    "The data is a synthetic stand-in for CIFAR-10: ten noisy patterns, so scores say nothing about CIFAR-10."
)
LISTED = {
    "parameters": {"": 11_173_962},
    "sized_by": "width depth",
    "data": {"": "cifar10"},
}
"""For `legroom jobs`, which reads it without importing: see `Workload`."""


def job(data: str = "", width: int = 64, depth: int = 2) -> Job:
    """CIFAR-10 (32x32, 50,000 + 10,000 images): ResNet-18, crops and flips on the device, judged by test accuracy.

    data: folder of the binary or python files (default LEGROOM_DATA), or synthetic. width: channels of the first stage.
    depth: blocks of each stage.
    """
    files = {} if data == SYNTHETIC else {part: find_part(data, part) for part in FILES}

    def read(part: str) -> Tensors:
        return read_images(files[part]) if files else make_images(len(FILES[part]) * NUM_IN_FILE)

    def sized(width: int, depth: int) -> Callable[[], nn.Module]:
        return lambda: nn.Sequential(
            CropAndFlip(padding=4),
            Normalize(MEAN, STD),
            ResNet(NUM_CLASSES, stem="small", num_blocks=(depth,) * 4, width=width),
        )

    return Job(
        model=sized(width, depth),
        train_data=lambda: read("train"),
        valid_data=lambda: read("test"),
        collate=collate,
        loss=mean_loss,
        optimizer=lambda model, rate: torch.optim.SGD(
            model.parameters(), rate, momentum=0.9, nesterov=True, weight_decay=5e-4
        ),
        score=Score(count_correct, goal="max", chance=1 / NUM_CLASSES),
        resize={"width": lambda width: sized(width, depth), "depth": lambda depth: sized(width, depth)},
        # Batch, rate, momentum: He et al. 2015, section 4.2; weight decay: Zagoruyko and Komodakis 2016, section 3.
        # One cycle in place of their steps, after Smith and Topin 2017: 30 epochs do for what took 160.
        baseline=Settings(batch_size=128, learning_rate=0.1, schedule="one-cycle", num_epochs=30),
        notes=() if files else (SYNTHETIC_NOTE,),
    )


def make_images(num_images: int) -> Tensors:
    """A stand-in of CIFAR-10's shape: each class a pattern of its own, the same always, under noise.

    Patterns are coarse and black at the edges, so that crops and flips leave them what they are.
    """
    rng = np.random.default_rng(num_images)
    labels = rng.integers(0, NUM_CLASSES, num_images)
    images = rng.integers(0, 128, (num_images, 3, NUM_PIXELS, NUM_PIXELS), dtype=np.uint8)
    images[:, :, 8:-8, 8:-8] += _colours()[labels][:, :, None, None]
    return Tensors(torch.from_numpy(images), torch.from_numpy(labels))


def _colours() -> np.ndarray:
    """A colour for each class, apart from all others: the eight corners of the cube and two more."""
    corners = np.array([[number >> colour & 1 for colour in range(3)] for number in range(8)])
    return np.vstack([corners * 127, [[64, 64, 0], [0, 64, 64]]]).astype(np.uint8)
