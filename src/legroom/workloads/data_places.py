"""Whether the data sets of the built-in jobs are here, and where they should be; found without opening one."""

import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from legroom.workloads.files import VARIABLE
from legroom.workloads.folders import has_folders, is_clip, is_photo
from legroom.workloads.published import PUBLISHED, Published


def _has_recordings(root: Path) -> bool:
    # Imported here: what reads archives costs 10 ms that `import legroom` should not pay.
    from legroom.workloads.recordings import has_recordings

    return has_recordings(root)


HOLDS: dict[str, Callable[[Path], bool]] = {
    "photos": lambda root: has_folders(root, is_photo),
    "clips": lambda root: has_folders(root, is_clip),
    "recordings": _has_recordings,
}
"""Whether files that lie like this are in a folder: what the jobs accept, as far as names tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataPlace:
    """Where a job looks for a data set, and whether it is there."""

    option: str
    """The option that asks for this set, as "pairs=tatoeba"; empty for the job's own."""
    title: str
    path: str
    found: bool
    published_at: str


def look_for(name: str, data: str = "", option: str = "") -> DataPlace:
    """The set in the folder `data`, or in that of LEGROOM_DATA; nothing is opened."""
    known = PUBLISHED[name]
    root = data or os.environ.get(VARIABLE, "")
    if known.package:
        spec = importlib.util.find_spec(known.package)
        path, found = (str(Path(spec.origin or "").parent), True) if spec else (known.package, False)
    else:
        place = _find(Path(root).expanduser(), known) if root else None
        path, found = str(place or Path(root or f"${VARIABLE}", known.folder)), place is not None
    return DataPlace(option=option, title=known.title, path=path, found=found, published_at=known.at)


def _find(root: Path, known: Published) -> Path | None:
    """The set's own folder, or the folder of data sets where the set lies right in that."""
    folder = root / known.folder
    if known.layout:
        try:
            if folder.is_dir():  # where it is there, the job looks nowhere else
                return folder if any(folder.iterdir()) else None
            return root if root.is_dir() and HOLDS[known.layout](root) else None
        except OSError:  # a folder among them that may not be read; the job would say which
            return None
    is_there = all(any((place / name).is_file() for place in (folder, root) for name in names) for names in known.names)
    return (folder if folder.is_dir() else root) if is_there else None
