"""Checkpoints: everything a run needs to go on as if it had never stopped, in one file written whole or not at all."""

import itertools
import os
import random
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from legroom.errors import UsageError
from legroom.files import replacing, writing
from legroom.training.metrics import BOARD_NAME
from legroom.training.metrics import FILE_NAME as METRICS_NAME
from legroom.training.records import CHECKPOINT_NAME

FORMAT = 1
FILE_NAME, BEST_NAME = CHECKPOINT_NAME, "best.pt"
LEFT_NAMES = (FILE_NAME, BEST_NAME, METRICS_NAME, BOARD_NAME)
"""What a run leaves in its folder; the checkpoint first, so that a kill amid moving leaves none to go on from."""
WAY_OUT = "Put back a copy of it, or start without --resume, which keeps it aside"


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
    except (zipfile.BadZipFile, NotImplementedError, EOFError, ValueError):
        raise UsageError(f"{path} cannot be read as a checkpoint: it is cut short or damaged. {WAY_OUT}") from None
    if damaged is not None:
        raise UsageError(f"{path} is damaged: its part {damaged} is not what was written. {WAY_OUT}")


def _refuse_other(path: Path, content: Any, identity: Mapping[str, Any]) -> None:
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        version = content.get("format") if isinstance(content, dict) else None
        raise UsageError(f"{path} has format {version}; this legroom reads format {FORMAT}. Start without --resume")
    saved = content["identity"]
    for name, value in identity.items():
        if saved.get(name) != value:
            what = _difference(saved.get(name), value)
            raise UsageError(
                f"{path} is of another run (its {name}: {what}). "
                "Start without --resume, name another --out, or ask for the same run again"
            )


def _difference(saved: Any, wanted: Any) -> str:
    if isinstance(saved, dict) and isinstance(wanted, dict):
        names = [name for name in {**saved, **wanted} if saved.get(name) != wanted.get(name)]
        return ", ".join(f"{name} {saved.get(name)}, not {wanted.get(name)}" for name in names)
    return f"{saved}, not {wanted}"


def chance_state() -> dict[str, Any]:
    """The state of every source of chance in this process."""
    version, words, gauss = random.getstate()
    name, keys, position, has_gauss, cached = np.random.get_state()
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "python": [version, list(words), gauss],
        "numpy": [name, torch.from_numpy(np.asarray(keys).astype(np.int64)), position, has_gauss, cached],
    }


def restore_chance(state: Mapping[str, Any]) -> None:
    """Put every source of chance where it was."""
    torch.set_rng_state(state["torch"])
    if state["cuda"] and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])
    version, words, gauss = state["python"]
    random.setstate((version, tuple(words), gauss))
    name, keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), position, has_gauss, cached))
