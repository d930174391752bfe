"""Where built-in jobs find the files of a published data set, and what is said when one is missing."""

import os
import zlib
from pathlib import Path

from legroom.errors import UsageError

SYNTHETIC = "synthetic"
"""The word that stands for a generated data set in place of a folder."""
VARIABLE = "LEGROOM_DATA"
GZIP = b"\x1f\x8b"
WAY_FORWARD = f"Name the folder with --data DIR or {VARIABLE}; --with data={SYNTHETIC} does without"


def find_file(data: str, folder: str, names: tuple[str, ...], *, num_bytes: int | None, published_at: str) -> Path:
    """The first file of these names in `data`/`folder` or in `data` itself; "" means LEGROOM_DATA.

    `num_bytes` is the size of the first name's file as published, where that is known.
    """
    name = names[0]
    size = f"has {num_bytes:,} bytes and " if num_bytes else ""
    source = f"It {size}is published at {published_at}. {WAY_FORWARD}"
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


def find_folder(data: str, folder: str, *, contents: str) -> Path:
    """`data`/`folder`, or `data` itself where it has no folder of that name; "" means LEGROOM_DATA."""
    place = data or os.environ.get(VARIABLE, "")
    if not place:
        raise UsageError(f"No folder is named for {contents}. {WAY_FORWARD}")
    root = Path(place).expanduser()
    if not root.is_dir():
        raise UsageError(f"There is no folder {str(root)!r} to read {contents} from. {WAY_FORWARD}")
    inner = root / folder
    return inner if inner.is_dir() else root


def read_bytes(path: Path) -> bytes:
    """All of the file; a file that may not be read is the user's to mend."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}. {WAY_FORWARD}") from None


def unpack(path: Path, source: str) -> bytes:
    """The content, unzipped; of a truncated zip as much as there is, so that its header can tell what is missing."""
    content = read_bytes(path)
    if content[:2] != GZIP:
        return content
    try:
        return zlib.decompressobj(wbits=31).decompress(content)
    except zlib.error as error:
        raise UsageError(f"{path} is damaged: {error}. {source}") from None
