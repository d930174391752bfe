"""Checkpoints: everything a run needs to go on as if it had never stopped, in one file written whole or not at all."""

import os
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from legroom.errors import UsageError

FORMAT = 1
FILE_NAME, BEST_NAME = "checkpoint.pt", "best.pt"


def save(path: Path, content: Mapping[str, Any]) -> None:
    """Write the content under another name, then move it into place: a kill leaves the old file or the new one."""
    # One name, not one each time: the logbook's lock lets one run write here, and what a kill left is overwritten.
    part = path.with_name(f".{path.name}.part")
    with part.open("wb") as file:
        torch.save(dict(content), file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)


def set_aside(folder: Path) -> None:
    """Rename what an earlier run saved: a run begun anew and killed early must not go on as that one."""
    for name in (FILE_NAME, BEST_NAME):
        path = folder / name
        if path.is_file():
            os.replace(path, path.with_stem(f"{path.stem}.previous"))


def load(path: Path, identity: Mapping[str, Any]) -> dict[str, Any] | None:
    """The content, on the host; None where there is none. Nothing but tensors and plain values is unpickled."""
    if not path.is_file():
        return None
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        first = (str(error).splitlines() or [""])[0]
        raise UsageError(f"{path} cannot be read as a checkpoint ({first}). Remove it or name another --out") from None
    _refuse_other(path, content, identity)
    return content  # type: ignore[no-any-return]


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
