"""Checkpoints: everything a run needs to go on as if it had never stopped, in one file written whole or not at all."""

import itertools
import math
import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch

from legroom.errors import UsageError
from legroom.files import replacing, writing
from legroom.requests import SAVED, SAVING
from legroom.training.metrics import BOARD_NAME, METRICS_NAME, Metrics
from legroom.training.records import CHECKPOINT_NAME, Train
from legroom.training.trainer import Beat, Trainer

FORMAT = 1
BEST_NAME = "best.pt"
LEFT_NAMES = (CHECKPOINT_NAME, BEST_NAME, METRICS_NAME, BOARD_NAME)
"""What a run leaves in its folder; the checkpoint first, so that a kill amid moving leaves none to go on from."""
SHARED_OUT = ("batch_size", "accumulation_steps", "num_devices")
"""Settings whose product is the size of an update: a run may go on with others of the same product."""
WAY_OUT = "Put back a copy of it, or start without --resume, which keeps it aside"


class RunFiles:
    """What a run leaves in its folder: metrics, its checkpoint and its best weights; without a folder nothing."""

    def __init__(self, request: Train, trainer: Trainer, beat: Beat) -> None:
        self.request, self.trainer, self.beat = request, trainer, beat
        self.folder = Path(request.folder) if request.folder else None
        self.metrics = Metrics(None)
        self.saved_at = 0.0
        self.saved_step: int | None = None
        self.notes: list[str] = []

    @property
    def checkpoint(self) -> str | None:
        """The last good one."""
        return str(self.folder / CHECKPOINT_NAME) if self.folder and self.saved_step is not None else None

    def open(self) -> dict[str, Any] | None:
        """What the checkpoint to go on from holds; None where the run begins anew, and keeps what others left."""
        request, folder, self.saved_at = self.request, self.folder, self.trainer.clock()
        content = load(folder / CHECKPOINT_NAME, request.identity) if request.resume and folder else None
        if content is not None:
            self.saved_step = content["progress"]["step"]
            self.metrics = Metrics(
                folder, size=content["metrics_size"], step=self.saved_step, tensorboard=request.tensorboard
            )
            return content
        if request.resume:
            self.notes.append(f"There was no checkpoint in {folder} to go on from, so the run began anew")
        if folder is not None and (aside := set_aside(folder)):
            self.notes.append(f"What an earlier run left in this folder is kept in {aside}")
        self.metrics = Metrics(folder, tensorboard=request.tensorboard)
        return None

    def write(self, line: Mapping[str, Any]) -> None:
        """Append a line to the metrics."""
        self.metrics.write(line)

    def save(self, **more: Any) -> None:
        """Write the checkpoint: the whole state of the training, and what else the run has to remember."""
        if self.folder is None:
            return
        with self._saving():
            self.metrics.flush()  # a checkpoint never knows more than the file
            head = {"format": FORMAT, "identity": dict(self.request.identity), "metrics_size": self.metrics.size}
            save(self.folder / CHECKPOINT_NAME, head | self.trainer.state().to_file() | more)
        self.saved_at, self.saved_step = self.trainer.clock(), self.trainer.at.step

    def keep_best(self, best: tuple[str, float] | None) -> None:
        """Write the weights where the last evaluation was the best."""
        if best is None:
            return
        weights = self.trainer.ranks.weights(self.trainer.model)  # of all ranks, whether they have a folder or not
        if self.folder is not None:
            name, value = best
            content = {"model": weights, "step": self.trainer.at.step, name: value}
            with self._saving():
                save(self.folder / BEST_NAME, content)

    @contextmanager
    def _saving(self) -> Iterator[None]:
        before, self.trainer.doing = self.trainer.doing, "saving"
        self.beat(SAVING, None)
        yield
        self.beat(SAVED, None)
        self.trainer.doing = before


def save(path: Path, content: Mapping[str, Any]) -> None:
    """Write the content whole or not at all, with torch's checksum of each part, whatever the job asked torch for."""
    asked = torch.serialization.get_crc32_options()
    torch.serialization.set_crc32_options(True)
    try:
        with replacing(path) as file:
            torch.save(dict(content), file)
    finally:
        torch.serialization.set_crc32_options(asked)


def set_aside(folder: Path) -> Path | None:
    """Move what an earlier run left into a folder of its own; None where there is nothing.

    A run begun anew never destroys the product of another, and killed early it must not go on as that one.
    """
    left = [folder / name for name in LEFT_NAMES if (folder / name).exists()]
    if not left:
        return None
    with writing(folder):
        aside = _new_folder(folder)
        for path in left:
            with suppress(FileNotFoundError):  # another machine of this run keeps it aside
                os.replace(path, aside / path.name)
    return aside


def _new_folder(folder: Path) -> Path:
    number = next(number for number in itertools.count(1) if not (folder / f"earlier-{number}").exists())
    aside = folder / f"earlier-{number}"
    aside.mkdir()
    return aside


def load(path: Path, identity: Mapping[str, Any]) -> dict[str, Any] | None:
    """The content, on the host; None where there is none. Nothing but tensors and plain values is unpickled."""
    if not path.is_file():
        return None
    _refuse_damaged(path)
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception:  # torch's own words advise to run what the file holds
        raise UsageError(
            f"{path} cannot be read as a checkpoint: it holds more than tensors and plain values. {WAY_OUT}"
        ) from None
    _refuse_other(path, content, identity)
    return content  # type: ignore[no-any-return]


def _refuse_damaged(path: Path) -> None:
    """Compare each part with its checksum, which torch writes but does not look at."""
    try:
        with zipfile.ZipFile(path) as parts:
            damaged = parts.testzip()
    except Exception as error:  # a flipped bit may call a part encrypted, or packed in any way that there is
        why = getattr(error, "strerror", None) or "it is cut short or damaged"
        raise UsageError(f"{path} cannot be read as a checkpoint: {why}. {WAY_OUT}") from None
    if damaged is not None:
        raise UsageError(f"{path} is damaged: its part {damaged} is not what was written. {WAY_OUT}")


def _refuse_other(path: Path, content: Any, identity: Mapping[str, Any]) -> None:
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        version = content.get("format") if isinstance(content, dict) else None
        raise UsageError(f"{path} has format {version}; this legroom reads format {FORMAT}. Start without --resume")
    saved = content["identity"]
    for name, value in identity.items():
        if saved.get(name) != value and not (name == "settings" and is_same_update(saved.get(name), value)):
            what = _difference(saved.get(name), value)
            raise UsageError(
                f"{path} is of another run (its {name}: {what}). "
                "Start without --resume, name another --out, or ask for the same run again"
            )


def is_same_update(saved: Any, wanted: Any) -> bool:
    """Whether both settings make the same updates, shared out to another number of devices.

    >>> is_same_update({"batch_size": 32, "num_devices": 1}, {"batch_size": 16, "num_devices": 2})
    True
    >>> is_same_update({"batch_size": 32, "num_devices": 1}, {"batch_size": 32, "num_devices": 2})
    False
    """
    return isinstance(saved, dict) and not differing(saved, wanted)


def differing(saved: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """Settings that differ, but for those that share the same update out to another number of devices.

    >>> differing({"batch_size": 32, "learning_rate": 0.1}, {"batch_size": 16, "num_devices": 2, "learning_rate": 0.2})
    ['learning_rate']
    """
    names = [name for name in {**saved, **wanted} if saved.get(name) != wanted.get(name)]
    if saved.get("num_devices", 1) == wanted.get("num_devices", 1) or _update_size(saved) != _update_size(wanted):
        return names
    return [name for name in names if name not in SHARED_OUT]


def _update_size(settings: Mapping[str, Any]) -> int:
    return math.prod(int(settings.get(name, 1)) for name in SHARED_OUT)


def _difference(saved: Any, wanted: Any) -> str:
    if isinstance(saved, dict) and isinstance(wanted, dict):
        return ", ".join(f"{name} {saved.get(name)}, not {wanted.get(name)}" for name in differing(saved, wanted))
    return f"{saved}, not {wanted}"
