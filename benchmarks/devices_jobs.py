"""Jobs from compute-bound to communication-bound: few weights that work much, to many weights that work little."""

import itertools
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


class Rows(nn.Module):
    """Rows of an image as a sequence, with a table of 300,000 words beside them, of which each sample uses a few."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.out = nn.Embedding(300_000, 32), nn.Linear(28 * 32, NUM_CLASSES)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Classes of the images."""
        return self.out(self.words((1000 * images.mean(dim=(1, 3))).long().abs()).flatten(1))


class Attention(nn.Module):
    """Rows of an image as a sequence, read by a small encoder: many parameters of few numbers."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(256, 4, 512, dropout=0.0, batch_first=True)
        self.into, self.encoder = nn.Linear(28, 256), nn.TransformerEncoder(layer, 4)
        self.out = nn.Linear(256, NUM_CLASSES)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Classes of the images."""
        return self.out(self.encoder(self.into(images[:, 0])).mean(dim=1))


def images() -> nn.Module:
    """Narrow convolutions, each followed by BatchNorm, and a wide layer at the end."""
    sizes = (1, 16, 16, 32, 32)
    blocks = [
        (nn.Conv2d(before, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU())
        for before, after in itertools.pairwise(sizes)
    ]
    parts = [part for block in blocks for part in block]
    return nn.Sequential(*parts, nn.AvgPool2d(4), nn.Flatten(), nn.Linear(32 * 49, 1024), nn.Linear(1024, NUM_CLASSES))


def job(kind: str = "conv", batch: int = 64, buffers: bool = True) -> legroom.Job:
    """One of KINDS; buffers: whether they are broadcast."""
    return legroom.Job(
        model=KINDS[kind],
        train_data=lambda: TensorDataset(
            torch.randn(NUM_SAMPLES, 1, 28, 28), torch.randint(0, NUM_CLASSES, (NUM_SAMPLES,))
        ),
        loss=lambda model, data: functional.cross_entropy(model(data[0]), data[1]),
        optimizer=lambda model, rate: torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9),
        baseline=legroom.Settings(batch_size=int(batch), learning_rate=0.01, broadcast_buffers=buffers),
    )


KINDS: dict[str, Callable[[], nn.Module]] = {
    "conv": convolutions,
    "narrow": layers(256, 4),
    "middle": layers(1024, 4),
    "wide": layers(2048, 4),
    "deep": layers(384, 24),
    "table": Rows,
    "attention": Attention,
    "images": images,
}
"""The first four from compute-bound to communication-bound."""
