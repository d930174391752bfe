"""What jobs that name the class of an image share: what is done to it on the device, small networks, loss and score."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import nn

from legroom.job import Batch

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class ScaleBytes(nn.Module):
    """Bytes as numbers from 0 to 1. On the device: the bytes are a quarter of what would have to be moved there."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.float() / 255


class Normalize(nn.Module):
    """Bytes as numbers of mean 0 and spread 1 in each colour, for images and for clips."""

    mean: torch.Tensor
    std: torch.Tensor

    def __init__(self, mean: Sequence[float] = IMAGENET_MEAN, std: Sequence[float] = IMAGENET_STD) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean) * 255, persistent=False)
        self.register_buffer("std", torch.tensor(std) * 255, persistent=False)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        shape = (-1, *[1] * (pictures.dim() - 2))
        return (pictures.float() - self.mean.view(shape)) / self.std.view(shape)


class CropAndFlip(nn.Module):
    """In training each image is moved by up to `padding` pixels over black, and mirrored every second time.

    Drawn by torch's generator of the device. 512 images of CIFAR-10 on the host would take longer than their training
    step on a large GPU.
    """

    def __init__(self, padding: int) -> None:
        super().__init__()
        self.padding = padding

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        if not self.training:
            return images
        num_images, num_colours, height, width = images.shape
        device, most = images.device, 2 * self.padding + 1
        rows = torch.arange(height, device=device) + torch.randint(most, (num_images, 1), device=device)
        columns = torch.arange(width, device=device) + torch.randint(most, (num_images, 1), device=device)
        mirrored = torch.rand(num_images, 1, device=device) < 0.5
        columns = torch.where(mirrored, columns.flip(1), columns)
        padded = nn.functional.pad(images, [self.padding] * 4)
        image = torch.arange(num_images, device=device).view(-1, 1, 1, 1)
        colour = torch.arange(num_colours, device=device).view(-1, 1, 1)
        return padded[image, colour, rows[:, None, :, None], columns[:, None, None, :]]


class RowLSTM(nn.Module):
    """LSTMs over the rows of an image; the last state names the class."""

    def __init__(self, num_columns: int, hidden: int, num_layers: int = 1, num_classes: int = 10) -> None:
        super().__init__()
        self.rows = nn.LSTM(num_columns, hidden, num_layers, batch_first=True)
        self.digit = nn.Linear(hidden, num_classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        states, _ = self.rows(images)
        return self.digit(states[:, -1])  # type: ignore[no-any-return]


class SmallCNN(nn.Module):
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


def mean_loss(model: nn.Module, batch: Batch) -> torch.Tensor:
    """Cross entropy of the batch."""
    return nn.functional.cross_entropy(model(batch[0]), batch[1])


def count_correct(model: nn.Module, batch: Batch) -> tuple[torch.Tensor, int]:
    """How many images are named right, of how many."""
    return (model(batch[0]).argmax(1) == batch[1]).sum(), len(batch[1])
