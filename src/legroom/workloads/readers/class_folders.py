"""Class folders: which samples lie in them, which of those are held out, and what is done where one cannot be read."""

import hashlib
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from legroom.errors import UsageError

HELD_OUT = ("val", "valid", "validation", "test")
"""Folders beside `train` that are held out, in this order."""
ONE_IN = 5
"""Of samples in one folder, this one is held out."""
ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".webp")
"""Of files with a picture."""
LIMIT_SHARE, LEAST_LIMIT = 0.01, 3
"""Samples that may be unreadable: that share of them, and that many in any case."""

T = TypeVar("T")

Sample = tuple[Path, int]
"""Where it lies, and the number of its class."""


@dataclass(frozen=True, slots=True)
class ClassFolders:
    """The samples of a data set, and the names of its classes in order."""

    classes: list[str]
    train: list[Sample]
    valid: list[Sample]


def read_folders(
    root: Path, is_sample: Callable[[Path], bool], kind: str, group: Callable[[str], str] = str
) -> ClassFolders:
    """Samples of `root`/CLASS, or of `root`/train/CLASS and `root`/val/CLASS where those are there.

    Else one in five is held out by the hash of its class and name, so that it stays out wherever the folder lies and
    whatever is added. Samples that `group` gives one name stay together.
    """
    train_root, held_out = _parts(root)
    if held_out is not None:
        classes = _classes(train_root, kind)
        train, valid = (_list(place, classes, is_sample, kind) for place in (train_root, held_out))
        return ClassFolders(classes, train, valid)
    classes = _classes(root, kind)
    samples = _list(root, classes, is_sample, kind)
    out = [is_held_out(f"{path.parent.name}/{group(path.stem)}") for path, _ in samples]
    parts = [[sample for sample, is_out in zip(samples, out, strict=True) if is_out is part] for part in (False, True)]
    if not all(parts):
        raise UsageError(f"{str(root)!r} has {len(samples)} {kind}s, too few to hold out one in {ONE_IN}")
    return ClassFolders(classes, *parts)


def has_folders(root: Path, is_sample: Callable[[Path], bool]) -> bool:
    """Whether class folders lie there, each with a sample; of each no more is looked at than the first."""
    place, _ = _parts(root)
    names = _class_names(place)
    return len(names) >= 2 and all(_holds(place / name, is_sample) for name in names)


def is_photo(path: Path) -> bool:
    """Whether its name is that of a picture."""
    return path.suffix.lower() in ENDINGS


def is_clip(path: Path) -> bool:
    """Whether it is an array, or a folder with a frame in it."""
    return path.suffix == ".npy" or (path.is_dir() and _holds(path, is_photo))


def list_frames(folder: Path) -> list[Path]:
    """The frames of a clip in order."""
    return sorted(filter(is_photo, folder.iterdir()))


def is_held_out(name: str) -> bool:
    """Whether the sample of that name is among the one in five.

    >>> [number for number in range(12) if is_held_out(f"watch/image_{number:04d}")]
    [6]
    """
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8]) % ONE_IN == 0


def most_frequent_share(samples: list[Sample]) -> float:
    """The accuracy of who always names the class that is there most often."""
    return Counter(number for _, number in samples).most_common(1)[0][1] / len(samples)


def list_files(paths: Iterable[Path]) -> bytes:
    """Names, sizes and times of change: tells files from others where reading them all would cost too much."""
    found = [(str(path.resolve()), path.stat()) for path in paths]
    return "\n".join(f"{name} {status.st_size} {status.st_mtime_ns}" for name, status in found).encode()


def _parts(root: Path) -> tuple[Path, Path | None]:
    """Where the classes to train on lie, and those held out; None where they lie together."""
    held_out = next((root / name for name in HELD_OUT if (root / name).is_dir()), None)
    apart = (root / "train").is_dir() and held_out is not None
    return (root / "train", held_out) if apart else (root, None)


def _holds(folder: Path, is_sample: Callable[[Path], bool]) -> bool:
    with os.scandir(folder) as entries:  # not listed in full: a class may have a thousand files
        return any(is_sample(Path(entry)) for entry in entries)


def _class_names(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))


def _classes(root: Path, kind: str) -> list[str]:
    names = _class_names(root)
    if len(names) < 2:
        raise UsageError(
            f"{str(root)!r} has {len(names)} class folders; a folder for each class with its {kind}s in it is needed, "
            "and at least two of them"
        )
    return names


def _list(root: Path, classes: list[str], is_sample: Callable[[Path], bool], kind: str) -> list[Sample]:
    samples = []
    for number, name in enumerate(classes):
        folder = root / name
        found = sorted(path for path in folder.iterdir() if is_sample(path)) if folder.is_dir() else []
        if not found:
            raise UsageError(f"The class folder {str(folder)!r} has no {kind} in it. Fill it or take it away")
        samples += [(path, number) for path in found]
    return samples


class Skips:
    """Samples that one process could not read; more than a hundredth of all, and more than three, are an error."""

    def __init__(self, num_samples: int) -> None:
        self.num_samples, self.limit = num_samples, max(LEAST_LIMIT, int(LIMIT_SHARE * num_samples))
        self.names: set[str] = set()

    def add(self, name: str, error: Exception) -> None:
        """Leave that one out."""
        if name in self.names:
            return
        self.names.add(name)
        count = f"{len(self.names)} of {self.num_samples:,}"
        if len(self.names) > self.limit:
            raise UsageError(
                f"{count} samples cannot be read; {self.limit} are let pass. The last is {name}: {error}. "
                "Mend them or take them away"
            )
        warnings.warn(f"{name} cannot be read ({error}) and is skipped: {count} so far", stacklevel=2)


def first_readable(read: Callable[[int], T], name: Callable[[int], str], index: int, skips: Skips) -> T:
    """The sample at that place; where it cannot be read, the next one that can."""
    for place in range(index, index + skips.num_samples):
        try:
            return read(place % skips.num_samples)
        except UsageError:
            raise
        except (OSError, SyntaxError, ValueError) as error:  # Pillow raises the second for broken PNG files
            skips.add(name(place % skips.num_samples), error)
    raise UsageError("No sample of this data can be read")
