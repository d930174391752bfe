"""Decodes photographs with Pillow: the part that is asked for, at the size that is asked for."""

import math
from typing import Any

import numpy as np
import torch

from legroom.errors import UsageError

CENTRE_SHARE = 0.875
"""Side of the crop that is judged, as a share of the shorter side: the usual 224 of 256."""

Box = tuple[float, float, float, float]
"""Left, upper, right and lower edge in pixels."""


def decoder() -> Any:
    """Pillow's module `Image`."""
    try:
        from PIL import Image
    except ImportError:
        raise UsageError("Images are decoded by Pillow, which is missing here: pip install pillow") from None
    return Image


def cut(image: Any, box: Box, size: int) -> np.ndarray:
    """The box of an opened image as `size` x `size` x 3 bytes.

    A JPEG is decoded at a half, a quarter or an eighth where that still has as many pixels as asked for.
    """
    width, height = image.size
    image.draft("RGB", (math.ceil(width * size / (box[2] - box[0])), math.ceil(height * size / (box[3] - box[1]))))
    across, down = image.size[0] / width, image.size[1] / height
    scaled = (box[0] * across, box[1] * down, box[2] * across, box[3] * down)
    colours = image if image.mode == "RGB" else image.convert("RGB")
    return np.asarray(colours.resize((size, size), decoder().Resampling.BILINEAR, box=scaled))


def centre_box(width: int, height: int) -> Box:
    """The square in the middle that is judged."""
    side = CENTRE_SHARE * min(width, height)
    left, upper = (width - side) / 2, (height - side) / 2
    return left, upper, left + side, upper + side


def random_box(width: int, height: int, least_share: float) -> Box:
    """A part of at least that share of the area, its sides up to 3:4, anywhere; by torch's own chance.

    Szegedy et al. 2014 (arXiv:1409.4842), section 6.
    """
    share, lean, x, y = torch.rand(4).tolist()
    area = width * height * (least_share + share * (1 - least_share))
    ratio = math.exp((2 * lean - 1) * math.log(4 / 3))
    across, down = min(width, math.sqrt(area * ratio)), min(height, math.sqrt(area / ratio))
    left, upper = x * (width - across), y * (height - down)
    return left, upper, left + across, upper + down
