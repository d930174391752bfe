"""Where built-in jobs find the files of a published data set, and what is said when one is missing."""

import os
from pathlib import Path

from legroom.errors import UsageError

SYNTHETIC = "synthetic"
"""The word that stands for a generated data set in place of a folder."""
VARIABLE = "LEGROOM_DATA"
WAY_FORWARD = f"Name the folder with --data DIR or {VARIABLE}; --with data={SYNTHETIC} does without"


def find_file(data: str, folder: str, names: tuple[str, ...], *, num_bytes: int, published_at: str) -> Path:
    """The first file of these names in `data`/`folder` or in `data` itself; "" means LEGROOM_DATA.

    `num_bytes` is the size of the first name's file as published.
    """
    name = names[0]
    source = f"It has {num_bytes:,} bytes and is published at {published_at}. {WAY_FORWARD}"
    place = data or os.environ.get(VARIABLE, "")
    if not place:
        raise UsageError(f"No folder is named for {name} of {folder}. {source}")
    root = Path(place).expanduser()
    if not root.is_dir():
        raise UsageError(f"There is no folder {str(root)!r} to read {name} of {folder} from. {source}")
    for path in [root / inner / each for inner in (folder, "") for each in names]:
        if path.is_file():
            return path
    either = " or ".join(names)
    raise UsageError(f"There is no {either} in {str(root / folder)!r} or {str(root)!r}. {source}")


def read_bytes(path: Path) -> bytes:
    """All of the file; a file that may not be read is the user's to mend."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}. {WAY_FORWARD}") from None
