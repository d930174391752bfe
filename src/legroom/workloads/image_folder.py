"""Photographs in class folders, decoded and cut anew each time: where loading, not computing, may set the pace."""

from collections.abc import Callable

import torch
from torch import nn

from legroom.errors import UsageError
from legroom.job import Job, Score, Settings
from legroom.workloads.models.classifiers import Normalize, count_correct, mean_loss
from legroom.workloads.models.resnet import LAYERS, named_resnet
from legroom.workloads.readers.class_folders import ClassFolders, Sample, is_photo, most_frequent_share, read_folders
from legroom.workloads.readers.files import SYNTHETIC, find_folder
from legroom.workloads.readers.photos import FilesOnDisk, Photos, cache_decoded, make_photos

SYNTHETIC_NOTE = (
    "The data is a synthetic stand-in for photographs: drawn JPEG files of ImageNet's usual size, so scores say "
    "nothing about photographs."
)
NUM_SYNTHETIC = {"classes": 10, "train": 1_280, "valid": 256}
AUXILIARY: dict[str, dict[str, bool]] = {
    name: {"aux_logits": False, "init_weights": True} for name in ("googlenet", "inception_v3")
}
"""Networks of torchvision that give several answers unless told not to."""
LISTED = {
    "parameters": {"": 11_181_642, "model=resnet50": 23_528_522},
    "sized_by": "images model",
    "data": {"": "caltech101-10"},
}
"""For `legroom jobs`, which reads it without importing: see `Workload`."""


def job(
    data: str = "", images: str = "caltech101-10", model: str = "resnet18", size: int = 128, keep: bool = False
) -> Job:
    """Photographs in class folders: any torchvision classifier, or a built-in ResNet; judged by held-out accuracy.

    data: folder (default LEGROOM_DATA), or synthetic. images: the folder of class folders in it. model: resnet18 to
    resnet152, or any classifier of torchvision. size: pixels a side. keep: decode once, keep the pixels in the cache.
    """
    found = None if data == SYNTHETIC else read_images(data, images)
    num_classes = len(found.classes) if found else NUM_SYNTHETIC["classes"]
    network = make_network(model, num_classes)
    chance = most_frequent_share(found.valid) if found else 1 / num_classes

    def read(part: str) -> Photos:
        if found is None:
            return Photos(make_photos(NUM_SYNTHETIC[part], num_classes), size, train=part == "train")
        samples: list[Sample] = getattr(found, part)
        return Photos(cache_decoded(samples, size) if keep else FilesOnDisk(samples), size, train=part == "train")

    def normalized(network: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
        return lambda: nn.Sequential(Normalize(), network())

    return Job(
        model=normalized(network),
        train_data=lambda: read("train"),
        valid_data=lambda: read("valid"),
        loss=mean_loss,
        optimizer=lambda model, rate: torch.optim.SGD(
            model.parameters(), rate, momentum=0.9, nesterov=True, weight_decay=1e-3
        ),
        score=Score(count_correct, goal="max", chance=chance),
        resize={
            "width": lambda width: normalized(named_resnet(model, num_classes, width=width)),
            "depth": lambda depth: normalized(named_resnet(model, num_classes, depth=depth)),
        }
        if model in LAYERS
        else {},
        # Our own choice for a few hundred photographs, from scratch: docs/workloads.md.
        baseline=Settings(batch_size=32, learning_rate=0.05, schedule="one-cycle", num_epochs=100, num_workers=2),
        notes=() if found else (SYNTHETIC_NOTE,),
    )


def read_images(data: str, images: str) -> ClassFolders:
    """The samples of the folder, and which are held out."""
    root = find_folder(data, images, contents=f"the images of {images}")
    return read_folders(root, is_photo, "image")


def make_network(name: str, num_classes: int) -> Callable[[], nn.Module]:
    """A factory of the network. ResNets are built in, so that they are the same where torchvision is missing."""
    if name in LAYERS:
        return named_resnet(name, num_classes)
    try:
        from torchvision import models
    except ImportError:
        raise UsageError(
            f"{name!r} is not built in, and torchvision is missing here. Install torchvision, or use one of "
            f"{', '.join(LAYERS)}"
        ) from None
    known = models.list_models(module=models)
    if name not in known:
        raise UsageError(f"torchvision has no classifier {name!r}. It has: {', '.join(known)}")
    return lambda: models.get_model(name, weights=None, num_classes=num_classes, **AUXILIARY.get(name, {}))
