"""Residual networks of He et al. 2015 (arXiv:1512.03385) for small images, photographs and clips.

The layers and their number of parameters are torchvision's, which is not needed.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Literal

import torch
from torch import nn

Stem = Literal["small", "photo", "clip"]
LAYERS: dict[str, tuple[bool, tuple[int, ...]]] = {
    "resnet18": (False, (2, 2, 2, 2)),
    "resnet34": (False, (3, 4, 6, 3)),
    "resnet50": (True, (3, 4, 6, 3)),
    "resnet101": (True, (3, 4, 23, 3)),
    "resnet152": (True, (3, 8, 36, 3)),
}
"""Whether its blocks are bottlenecks, and the blocks of each stage."""


class Block(nn.Module):
    """Convolutions beside a short cut: two of 3x3, or 1x1, 3x3 and 1x1 with a bottleneck of a quarter."""

    def __init__(self, kind: type, num_in: int, num_out: int, stride: int, bottleneck: bool) -> None:
        super().__init__()
        inner = num_out // 4 if bottleneck else num_out
        self.body = nn.Sequential(
            *([*_unit(kind, num_in, inner, 1), nn.ReLU(inplace=True)] if bottleneck else []),
            *_unit(kind, inner if bottleneck else num_in, inner, 3, stride),
            nn.ReLU(inplace=True),
            *_unit(kind, inner, num_out, 1 if bottleneck else 3),
        )
        short = stride == 1 and num_in == num_out
        self.short_cut = nn.Identity() if short else nn.Sequential(*_unit(kind, num_in, num_out, 1, stride))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.relu(self.body(x) + self.short_cut(x), inplace=True)


class ResNet(nn.Module):
    """A stem, four stages of which each doubles the channels and all but the first halve the size, a mean, a layer."""

    def __init__(
        self,
        num_classes: int,
        *,
        stem: Stem,
        num_blocks: tuple[int, ...] = (2, 2, 2, 2),
        bottleneck: bool = False,
        width: int = 64,
    ) -> None:
        super().__init__()
        kind: type = nn.Conv3d if stem == "clip" else nn.Conv2d
        last = 4 if bottleneck else 1
        channels = [width, *(width * 2**stage * last for stage in range(len(num_blocks)))]
        self.stem = nn.Sequential(*_stem(stem, width))
        self.stages = nn.Sequential(
            *(
                _stage(kind, before, after, count, 2 if stage else 1, bottleneck)
                for stage, ((before, after), count) in enumerate(zip(pairwise(channels), num_blocks, strict=True))
            )
        )
        self.classes = nn.Linear(channels[-1], num_classes)
        self.apply(_initialise)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.classes(self.stages(self.stem(images)).flatten(2).mean(2))  # type: ignore[no-any-return]


def named_resnet(name: str, num_classes: int, width: int = 64, depth: int | None = None) -> Callable[[], nn.Module]:
    """A factory of the network by its usual name; `depth` gives all stages that many blocks."""
    bottleneck, blocks = LAYERS[name]
    num_blocks = blocks if depth is None else (depth,) * len(blocks)
    return lambda: ResNet(num_classes, stem="photo", num_blocks=num_blocks, bottleneck=bottleneck, width=width)


def _stage(kind: type, num_in: int, num_out: int, num_blocks: int, stride: int, bottleneck: bool) -> nn.Sequential:
    first = Block(kind, num_in, num_out, stride, bottleneck)
    return nn.Sequential(first, *(Block(kind, num_out, num_out, 1, bottleneck) for _ in range(num_blocks - 1)))


def _unit(kind: type, num_in: int, num_out: int, size: int, stride: int = 1) -> list[nn.Module]:
    norm: type = nn.BatchNorm3d if kind is nn.Conv3d else nn.BatchNorm2d
    return [kind(num_in, num_out, size, stride, padding=size // 2, bias=False), norm(num_out)]


def _stem(stem: Stem, width: int) -> list[nn.Module]:
    if stem == "small":
        return [*_unit(nn.Conv2d, 3, width, 3), nn.ReLU(inplace=True)]
    if stem == "photo":
        return [*_unit(nn.Conv2d, 3, width, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, padding=1)]
    # Tran et al. 2018 (arXiv:1711.11248): frames are halved in size, their number is not.
    first = nn.Conv3d(3, width, (3, 7, 7), (1, 2, 2), padding=(1, 3, 3), bias=False)
    return [first, nn.BatchNorm3d(width), nn.ReLU(inplace=True)]


def _initialise(module: Any) -> None:
    if isinstance(module, nn.Conv2d | nn.Conv3d):
        nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
