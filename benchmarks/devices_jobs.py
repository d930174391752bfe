"""Jobs from compute-bound to communication-bound: few weights that work much, to many weights that work little."""

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import TensorDataset

import legroom

NUM_SAMPLES, NUM_CLASSES = 4096, 10


def convolutions() -> nn.Module:
    """94,000 weights, each used at every place of an image."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(64, 128, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, NUM_CLASSES),
    )  # fmt: skip


def layers(width: int, depth: int) -> Callable[[], nn.Module]:
    """Layers of one width."""

    def make() -> nn.Module:
        hidden = [part for _ in range(depth) for part in (nn.Linear(width, width), nn.ReLU())]
        return nn.Sequential(nn.Flatten(), nn.Linear(784, width), nn.ReLU(), *hidden, nn.Linear(width, NUM_CLASSES))

    return make


def job(kind: str = "conv", batch: int = 64) -> legroom.Job:
    """One of KINDS."""
    return legroom.Job(
        model=KINDS[kind],
        train_data=lambda: TensorDataset(
            torch.randn(NUM_SAMPLES, 1, 28, 28), torch.randint(0, NUM_CLASSES, (NUM_SAMPLES,))
        ),
        loss=lambda model, data: functional.cross_entropy(model(data[0]), data[1]),
        optimizer=lambda model, rate: torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9),
        baseline=legroom.Settings(batch_size=int(batch), learning_rate=0.01),
    )


KINDS: dict[str, Callable[[], nn.Module]] = {
    "conv": convolutions,
    "narrow": layers(256, 4),
    "middle": layers(1024, 4),
    "wide": layers(2048, 4),
}
"""From compute-bound to communication-bound."""
