"""What is done to pictures on the device, a whole batch at once: the host then moves bytes and computes nothing."""

from collections.abc import Sequence

import torch
from torch import nn

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Normalised(nn.Module):
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

    Drawn from torch's own chance on the device. 512 images of CIFAR-10 on the host would take longer than their
    training step on a large GPU.
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
