"""Clips of video and the 3-D ResNet-18: few samples fill a card, and each is a large read."""

from collections.abc import Callable

import torch
from torch import nn

from legroom.errors import UsageError
from legroom.job import Job, Score, Settings
from legroom.workloads.models.classifiers import Normalize, count_correct, mean_loss
from legroom.workloads.models.resnet import ResNet
from legroom.workloads.readers.class_folders import is_clip, most_frequent_share, read_folders
from legroom.workloads.readers.clips import ClipFiles, Clips, SyntheticClips, scene
from legroom.workloads.readers.files import SYNTHETIC, find_folder

MEAN, STD = (0.43216, 0.394666, 0.37645), (0.22803, 0.22145, 0.216989)
"""Of each colour over Kinetics-400."""
NUM_SYNTHETIC = {"classes": 101, "train": 9_537, "valid": 3_783}
"""Classes and clips of UCF-101's first split."""
SYNTHETIC_NOTE = (
    "The data is a synthetic stand-in for video: windows moving over a texture, generated, not decoded, so scores and "
    "loading speed say nothing about video."
)
LISTED = {
    "parameters": {"": 33_218_085},
    "sized_by": "clips width depth",
    "data": {"": "ucf101"},
}
"""For `legroom jobs`, which reads it without importing: see `Workload`."""


def job(
    data: str = "", clips: str = "ucf101", frames: int = 16, size: int = 112, width: int = 64, depth: int = 2
) -> Job:
    """Clips in class folders (folders of frames, or .npy arrays): 3-D ResNet-18, judged by held-out accuracy.

    data: folder (default LEGROOM_DATA), or synthetic: generated clips. clips: the folder of class folders in it.
    frames: of a clip. size: pixels a side. width: channels of the first stage. depth: blocks of each stage.
    """
    if min(frames, size) < 1:
        raise UsageError("frames and size must be at least 1")
    found = None
    if data != SYNTHETIC:
        root = find_folder(data, clips, contents=f"the clips of {clips}")
        found = read_folders(root, is_clip, "clip", group=scene)
    num_classes = len(found.classes) if found else NUM_SYNTHETIC["classes"]

    def read(part: str) -> Clips:
        train = part == "train"
        if found:
            return Clips(ClipFiles(getattr(found, part)), frames, size, train=train)
        # A little longer and larger than what is cut from them.
        generated = SyntheticClips(NUM_SYNTHETIC[part], num_classes, 2 * frames, size + size // 4)
        return Clips(generated, frames, size, train=train)

    def sized(width: int, depth: int) -> Callable[[], nn.Module]:
        network = {"stem": "clip", "num_blocks": (depth,) * 4, "width": width}
        return lambda: nn.Sequential(Normalize(MEAN, STD), ResNet(num_classes, **network))  # type: ignore[arg-type]

    return Job(
        model=sized(width, depth),
        train_data=lambda: read("train"),
        valid_data=lambda: read("valid"),
        loss=mean_loss,
        optimizer=lambda model, rate: torch.optim.SGD(model.parameters(), rate, momentum=0.9, weight_decay=1e-3),
        score=Score(count_correct, chance=most_frequent_share(found.valid) if found else 1 / num_classes),
        resize={"width": lambda width: sized(width, depth), "depth": lambda depth: sized(width, depth)},
        # Momentum and weight decay: Hara et al. 2017 (arXiv:1711.09577); rate and batch: Tran et al. 2018, for one GPU.
        baseline=Settings(batch_size=32, learning_rate=0.01, schedule="cosine", num_epochs=45, num_workers=2),
        notes=() if found else (SYNTHETIC_NOTE,),
    )
