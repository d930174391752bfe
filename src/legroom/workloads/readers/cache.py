"""Data that were prepared once: arrays in the user's cache folder, found by the digest of what they were made from."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

VARIABLE = "LEGROOM_CACHE"
FORMAT = 1
"""Raise it when the same text and options give other arrays than before."""
FACTS = "facts.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A text as numbers."""

    arrays: Mapping[str, npt.NDArray[Any]]
    """By name; memory-mapped where they come from the cache."""
    facts: Mapping[str, Any]
    """What is known of them, as JSON values."""


def cache_folder() -> Path:
    """LEGROOM_CACHE, or legroom in the user's cache folder."""
    if place := os.environ.get(VARIABLE):
        return Path(place).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "legroom"


def load_or_make(contents: Iterable[bytes], options: Mapping[str, Any], make: Callable[[], Prepared]) -> Prepared:
    """What these contents and options made before; made now, and kept, where they never did.

    A cache that cannot be written to costs time, not the answer.
    """
    digest = hashlib.sha256(json.dumps([FORMAT, dict(options)], sort_keys=True).encode())
    for content in contents:
        digest.update(hashlib.sha256(content).digest())
    folder = cache_folder() / digest.hexdigest()[:32]
    found = _load(folder)
    if found is not None:
        return found
    made = make()
    try:
        _save(folder, made)
    except OSError:
        return made
    return _load(folder) or made


def _load(folder: Path) -> Prepared | None:
    try:
        facts = json.loads((folder / FACTS).read_text())
        # Copy on write: torch warns of arrays that may not be written to, and nobody writes to these.
        arrays = {name: np.load(folder / f"{name}.npy", mmap_mode="c") for name in facts["arrays"]}
    except (OSError, ValueError, KeyError):
        return None
    return Prepared(arrays=arrays, facts=facts["facts"])


def _save(folder: Path, made: Prepared) -> None:
    """Written beside and renamed, so that a reader finds all of it or nothing."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=".making-", dir=folder.parent))
    try:
        for name, array in made.arrays.items():
            np.save(beside / f"{name}.npy", array)
        (beside / FACTS).write_text(json.dumps({"arrays": list(made.arrays), "facts": dict(made.facts)}))
        if folder.exists() and _load(folder) is None:
            shutil.rmtree(folder, ignore_errors=True)  # damaged: it would be made anew each time
        beside.rename(folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
