"""What jobs that name the class of a small image share: models, loss and score."""

from itertools import pairwise

import torch
from torch import nn

from legroom.job import Batch


class RowReader(nn.Module):
    """LSTMs over the rows of an image; the last state names the class."""

    def __init__(self, num_columns: int, hidden: int, num_layers: int = 1, num_classes: int = 10) -> None:
        super().__init__()
        self.rows = nn.LSTM(num_columns, hidden, num_layers, batch_first=True)
        self.digit = nn.Linear(hidden, num_classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        states, _ = self.rows(images)
        return self.digit(states[:, -1])  # type: ignore[no-any-return]


class Convolutions(nn.Module):
    """3x3 convolutions, a quarter of `hidden` channels in the first and half in the others, then one linear layer."""

    def __init__(self, num_pixels: int, hidden: int, num_layers: int = 2, num_classes: int = 10) -> None:
        super().__init__()
        few, many = max(1, hidden // 4), max(1, hidden // 2)
        channels = [1, few, *[many] * (num_layers - 1)]
        layers: list[nn.Module] = []
        for before, after in pairwise(channels):
            layers += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU()]
        self.features = nn.Sequential(*layers, nn.MaxPool2d(2), nn.Flatten())
        self.digit = nn.Linear(channels[-1] * (num_pixels // 2) ** 2, num_classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.digit(self.features(images.unsqueeze(1)))  # type: ignore[no-any-return]


class Scaled(nn.Module):
    """Bytes as numbers from 0 to 1. On the device: the bytes are a quarter of what would have to be moved there."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.float() / 255


def mean_loss(model: nn.Module, batch: Batch) -> torch.Tensor:
    """Cross entropy of the batch."""
    return nn.functional.cross_entropy(model(batch[0]), batch[1])


def count_correct(model: nn.Module, batch: Batch) -> tuple[torch.Tensor, int]:
    """How many images are named right, of how many."""
    return (model(batch[0]).argmax(1) == batch[1]).sum(), len(batch[1])
