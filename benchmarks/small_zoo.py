"""Small models of ten kinds, as jobs by name: a CPU trains each at many batch sizes within a minute."""

from collections.abc import Callable
from typing import Any

import torch
from plain_jobs import NUM_CLASSES, NUM_WORDS, Encoder, cnn
from torch import nn
from torch.nn import functional
from torch.utils.data import Dataset

import legroom


class Recurrent(nn.Module):
    """Words, one recurrent layer, a class from the last state."""

    def __init__(self, kind: type[nn.RNNBase]) -> None:
        super().__init__()
        self.embed = nn.Embedding(NUM_WORDS, 64)
        self.recur = kind(64, 96, batch_first=True)
        self.classes = nn.Linear(96, NUM_CLASSES)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.classes(self.recur(self.embed(words))[0][:, -1])  # type: ignore[no-any-return]


class Residual(nn.Module):
    """Two convolutions with batch norm, added to their input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels),
        )  # fmt: skip

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return functional.relu(images + self.body(images))


def mlp() -> nn.Module:
    """Three wide layers."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
    )


def resnet() -> nn.Module:
    """Residual blocks with batch norm."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, stride=2, padding=1), Residual(16), Residual(16), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(16, NUM_CLASSES),
    )  # fmt: skip


def separable() -> nn.Module:
    """A convolution for each channel, then one across them."""
    return nn.Sequential(
        nn.Conv2d(1, 24, 3, stride=2, padding=1), nn.Conv2d(24, 24, 3, padding=1, groups=24), nn.Conv2d(24, 48, 1),
        nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(48, NUM_CLASSES),
    )  # fmt: skip


def sound() -> nn.Module:
    """Convolutions along time."""
    return nn.Sequential(
        nn.Conv1d(1, 16, 9, stride=4), nn.ReLU(), nn.Conv1d(16, 32, 9, stride=4), nn.ReLU(),
        nn.AdaptiveAvgPool1d(4), nn.Flatten(), nn.Linear(128, NUM_CLASSES),
    )  # fmt: skip


def autoencoder() -> nn.Module:
    """Squeezes an image through 32 numbers and back."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 32), nn.ReLU(), nn.Linear(32, 256), nn.ReLU(),
        nn.Linear(256, 784),
    )  # fmt: skip


def bag() -> nn.Module:
    """The mean of word vectors, then a class."""
    return nn.Sequential(nn.EmbeddingBag(NUM_WORDS, 64), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, NUM_CLASSES))


IMAGE, WORDS, SOUND = torch.rand(1, 28, 28), torch.arange(32) % NUM_WORDS, torch.rand(1, 2048)
MODELS: dict[str, tuple[Callable[[], nn.Module], torch.Tensor]] = {
    "mlp": (mlp, IMAGE),
    "cnn": (cnn, IMAGE),
    "resnet": (resnet, IMAGE),
    "separable": (separable, IMAGE),
    "autoencoder": (autoencoder, IMAGE),
    "sound": (sound, SOUND),
    "lstm": (lambda: Recurrent(nn.LSTM), WORDS),
    "gru": (lambda: Recurrent(nn.GRU), WORDS),
    "encoder": (Encoder, WORDS),
    "bag": (bag, WORDS),
}


class Repeated(Dataset[Any]):
    """The same sample under every index."""

    def __init__(self, sample: torch.Tensor) -> None:
        self.sample = sample

    def __len__(self) -> int:
        return 4096

    def __getitem__(self, index: int) -> Any:
        return self.sample, index % NUM_CLASSES


def loss(model: nn.Module, batch: Any) -> torch.Tensor:
    """Cross-entropy; where the model gives as many numbers as it reads, their distance."""
    outputs = model(batch[0])
    if outputs.shape[1] != NUM_CLASSES:
        return functional.mse_loss(outputs, batch[0].flatten(1))
    return functional.cross_entropy(outputs, batch[1])


def job(model: str = "mlp", threads: int = 0) -> legroom.Job:
    """One of the small models. model: its name; threads: of torch, 0 for its own choice."""
    make, sample = MODELS[model]
    if threads:
        torch.set_num_threads(threads)
    return legroom.Job(
        model=make,
        train_data=lambda: Repeated(sample),
        loss=loss,
        optimizer=lambda model, rate: torch.optim.Adam(model.parameters(), rate),
        baseline=legroom.Settings(batch_size=32, learning_rate=1e-3),
    )
