"""Three small jobs as people write them, without legroom, and a stopwatch that both kinds of loop run on."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import Dataset, TensorDataset

NUM_SAMPLES, NUM_CLASSES, NUM_WORDS = 60_000, 10, 2_000
WARM_STEPS = 20


class Encoder(nn.Module):
    """Words, two transformer layers, a class from their mean: a tiny BERT."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(NUM_WORDS, 64)
        layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
        self.encode = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.classes = nn.Linear(64, NUM_CLASSES)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Logits of each row of words."""
        return self.classes(self.encode(self.embed(words)).mean(1))  # type: ignore[no-any-return]


def cnn() -> nn.Module:
    """Two convolutions for images of 28 x 28."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32 * 49, NUM_CLASSES),
    )  # fmt: skip


def mlp() -> nn.Module:
    """Three layers."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, NUM_CLASSES)
    )


def images() -> Dataset[Any]:
    """Random images in memory."""
    return TensorDataset(torch.rand(NUM_SAMPLES, 1, 28, 28), torch.arange(NUM_SAMPLES) % NUM_CLASSES)


def texts() -> Dataset[Any]:
    """Random rows of 32 words."""
    return TensorDataset(torch.randint(NUM_WORDS, (NUM_SAMPLES, 32)), torch.arange(NUM_SAMPLES) % NUM_CLASSES)


JOBS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Dataset[Any]]]] = {
    "cnn": (cnn, images),
    "mlp": (mlp, images),
    "encoder": (Encoder, texts),
}


class Stopwatch:
    """The loss, which also tells a file the samples a second between two of its calls: a clock both loops share."""

    def __init__(self) -> None:
        self.num_calls = self.num_samples = 0
        self.num_steps, self.path = int(os.environ.get("STOP_AFTER", 0)), os.environ.get("STOPWATCH", "")

    def __call__(self, model: nn.Module, batch: Any) -> torch.Tensor:
        """Cross-entropy."""
        if self.path:
            self._tick(len(batch[1]))
        return functional.cross_entropy(model(batch[0]), batch[1])

    def _tick(self, num_samples: int) -> None:
        if self.num_calls == WARM_STEPS:
            self.started = time.perf_counter()
        if self.num_calls == self.num_steps - 1:  # of a run of num_steps updates this is the last call
            seconds = time.perf_counter() - self.started
            Path(self.path).write_text(json.dumps(self.num_samples / seconds))
        self.num_calls += 1
        self.num_samples += num_samples if self.num_calls > WARM_STEPS else 0


def optimizer(model: nn.Module, rate: float) -> torch.optim.Optimizer:
    """Plain Adam."""
    return torch.optim.Adam(model.parameters(), rate)
