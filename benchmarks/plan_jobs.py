"""Jobs for benchmarks/plan.py: built-in jobs on less of their data, and jobs with a library's own settings."""

import dataclasses
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import Subset, TensorDataset

import legroom
from legroom import load_job
from legroom.workloads import cifar_resnet18
from legroom.workloads.readers.cifar import find_part, read_images
from legroom.workloads.readers.tensors import Tensors

NUM_JUDGES = 500
"""Of the 10,000 images that judge, the first; of the 60,000 to learn from, as many as each job says."""


def mnist_lstm(data: str = "") -> legroom.Job:
    """The built-in job on a part of its images."""
    return _on_fewer_images(load_job("mnist-lstm", {"data": data} if data else {}), 6_000)


def mnist_cnn(data: str = "") -> legroom.Job:
    """mnist/main.py of github.com/pytorch/examples on a part of the images: its network, Adadelta, 14 epochs."""
    base = load_job("mnist-lstm", {"data": data} if data else {})
    return dataclasses.replace(
        _on_fewer_images(base, 1_000),
        model=lambda: nn.Sequential(_Normal(), *_mnist_net()),
        optimizer=lambda model, rate: torch.optim.Adadelta(model.parameters(), rate),
        resize={},
        baseline=legroom.Settings(
            batch_size=64, learning_rate=1.0, schedule="exponential:factor=0.7,every=1,after=1", num_epochs=14
        ),
    )


def cifar_small(data: str = "") -> legroom.Job:
    """The built-in job on one of CIFAR-10's five files, of which the last fifth judges."""
    images, labels = read_images(find_part(data, "train")[:1]).tensors
    return dataclasses.replace(
        cifar_resnet18.job(data="synthetic"),
        train_data=lambda: Tensors(images[:8_000], labels[:8_000]),
        valid_data=lambda: Tensors(images[8_000:], labels[8_000:]),
        notes=(),
    )


def _on_fewer_images(job: legroom.Job, num_images: int) -> legroom.Job:
    train, valid = job.train_data, job.valid_data
    return dataclasses.replace(
        job,
        train_data=lambda: Subset(train(), range(num_images)),
        valid_data=lambda: Subset(valid(), range(NUM_JUDGES)),
    )


def _mnist_net() -> list[nn.Module]:
    return [
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25),
        nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 10),
    ]  # fmt: skip


class _Normal(nn.Module):
    """Bytes of images as that example feeds them."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return (images.float().unsqueeze(1) / 255 - 0.1307) / 0.3081


def digits_mlp() -> legroom.Job:
    """scikit-learn's MLPClassifier by its defaults, on its digits: 100 units, Adam 0.001, batch 200, 200 epochs."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    inputs = torch.tensor(images[order] / 16, dtype=torch.float32)
    targets = torch.tensor(labels[order])
    return legroom.Job(
        model=lambda: nn.Sequential(nn.Linear(64, 100), nn.ReLU(), nn.Linear(100, 10)),
        train_data=lambda: TensorDataset(inputs[:-360], targets[:-360]),
        valid_data=lambda: TensorDataset(inputs[-360:], targets[-360:]),
        loss=_loss,
        score=legroom.Score(_correct, goal="max"),
        optimizer=lambda model, rate: torch.optim.Adam(model.parameters(), rate, weight_decay=1e-4 / 200),
        baseline=legroom.Settings(batch_size=200, learning_rate=1e-3, num_epochs=200),
    )


def _loss(model: Any, batch: Any) -> torch.Tensor:
    inputs, targets = batch
    return nn.functional.cross_entropy(model(inputs), targets)


def _correct(model: Any, batch: Any) -> tuple[torch.Tensor, int]:
    inputs, targets = batch
    return (model(inputs).argmax(1) == targets).sum(), len(targets)
