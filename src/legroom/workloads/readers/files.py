"""Finds the files of a published data set and unpacks them; what is missing or damaged is told with where to get it."""

import io
import os
import zlib
from pathlib import Path

from legroom.errors import UsageError

SYNTHETIC = "synthetic"
"""The word that stands for a generated data set in place of a folder."""
VARIABLE = "LEGROOM_DATA"
GZIP, ZIP = b"\x1f\x8b", b"PK"
"""How such files begin."""
WAY_FORWARD = f"Name the folder with --data DIR or {VARIABLE}; --with data={SYNTHETIC} does without"


def find_file(data: str, folder: str, names: tuple[str, ...], *, num_bytes: int | None, published_at: str) -> Path:
    """The first file of these names in `data`/`folder` or in `data` itself; "" means LEGROOM_DATA.

    `num_bytes` is the size of the first name's file as published, where that is known.
    """
    name = names[0]
    size = f"has {num_bytes:,} bytes and " if num_bytes else ""
    source = f"It {size}is published at {published_at}. {WAY_FORWARD}"
    root = _data_folder(data, f"{name} of {folder}", source)
    for path in [root / inner / each for inner in (folder, "") for each in names]:
        if path.is_file():
            return path
    either = " or ".join(names)
    raise UsageError(f"There is no {either} in {str(root / folder)!r} or {str(root)!r}. {source}")


def find_folder(data: str, folder: str, *, contents: str) -> Path:
    """`data`/`folder`, or `data` itself where it has no folder of that name; "" means LEGROOM_DATA."""
    root = _data_folder(data, contents, WAY_FORWARD)
    inner = root / folder
    return inner if inner.is_dir() else root


def _data_folder(data: str, contents: str, way_forward: str) -> Path:
    place = data or os.environ.get(VARIABLE, "")
    if not place:
        raise UsageError(f"No folder is named for {contents}. {way_forward}")
    root = Path(place).expanduser()
    if not root.is_dir():
        raise UsageError(f"There is no folder {str(root)!r} to read {contents} from. {way_forward}")
    return root


def own_file(word: str, way_forward: str) -> Path:
    """A file of the user's own."""
    path = Path(word).expanduser()
    if not path.is_file():
        raise UsageError(f"There is no file {word!r}. {way_forward}")
    return path


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


def read_content(path: Path, member: str = "", *, way_forward: str = "") -> bytes:
    """The file's bytes, unpacked; of a zip the member whose name ends so, or the largest one.

    `way_forward` ends the sentence about a damaged file: where to get it again.
    """
    # Imported here: what reads archives costs 10 ms that `import legroom` should not pay.
    import gzip
    import zipfile

    content = read_bytes(path)
    try:
        if content[:2] == GZIP:
            return gzip.decompress(content)
        return _read_member(path, content, member) if content[:2] == ZIP else content
    except (zipfile.BadZipFile, EOFError, OSError, zlib.error) as error:
        raise UsageError(
            f"{path} has {len(content):,} bytes and is truncated or damaged: {error}. {way_forward or 'Get it again'}"
        ) from None


def _read_member(path: Path, content: bytes, member: str) -> bytes:
    import zipfile

    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        found = [info for info in archive.infolist() if not info.is_dir() and info.filename.endswith(member)]
        if not found:
            names = ", ".join(archive.namelist()) or "nothing"
            raise UsageError(f"{path} holds no {member}. It holds: {names}")
        return archive.read(max(found, key=lambda info: info.file_size))
