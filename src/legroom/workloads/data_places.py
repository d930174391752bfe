"""Whether the data sets of the built-in jobs are here, and where they should be; found without opening one."""

import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path

from legroom.workloads.files import VARIABLE
from legroom.workloads.published import PUBLISHED, Published


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
        path = str(Path(root or f"${VARIABLE}", known.folder))
        found = bool(root) and _is_in(Path(root).expanduser(), known)
    return DataPlace(option=option, title=known.title, path=path, found=found, published_at=known.at)


def _is_in(root: Path, known: Published) -> bool:
    folder = root / known.folder
    if not known.names:
        return folder.is_dir() and any(folder.iterdir())
    return all(any((place / name).is_file() for place in (folder, root) for name in names) for names in known.names)
