"""Reads text from plain, gzipped and zipped files; what is damaged, no UTF-8 or of unequal length is said so."""

import gzip
import io
import zipfile
import zlib
from pathlib import Path

from legroom.errors import UsageError
from legroom.workloads.files import read_bytes

GZIP = b"\x1f\x8b"
ZIP = b"PK"


def read_content(path: Path, member: str = "", *, way_forward: str = "") -> bytes:
    """The file's bytes, unpacked; of a zip the member whose name ends so, or the largest one.

    `way_forward` ends the sentence about a damaged file: where to get it again.
    """
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
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        found = [info for info in archive.infolist() if not info.is_dir() and info.filename.endswith(member)]
        if not found:
            names = ", ".join(archive.namelist()) or "nothing"
            raise UsageError(f"{path} holds no {member}. It holds: {names}")
        return archive.read(max(found, key=lambda info: info.file_size))


def decode(content: bytes, path: Path) -> str:
    """The bytes as UTF-8."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise UsageError(
            f"{path} is no text in UTF-8: byte {content[error.start]:#04x} in line {line:,}. "
            "Convert it, as in iconv -f latin1 -t utf-8"
        ) from None


def lines_of(text: str) -> list[str]:
    """Lines as editors count them: other characters that Unicode calls line ends stay within a line.

    >>> lines_of("a b\\u2028c\\r\\nd\\n")
    ['a b\\u2028c', 'd']
    """
    return text.removesuffix("\n").replace("\r\n", "\n").split("\n")


def split_tabs(text: str, path: Path) -> tuple[list[str], list[str]]:
    """Source and target of tab-separated lines; columns beyond the second, such as a licence, are left out."""
    sources, targets = [], []
    for number, line in enumerate(lines_of(text), start=1):
        parts = line.split("\t")
        if len(parts) < 2:
            raise UsageError(
                f"{path} has no tab in line {number:,}: {line[:60]!r}. "
                "Write source, tab, target; or give two parallel files with --with source=FILE --with target=FILE"
            )
        sources.append(parts[0])
        targets.append(parts[1])
    return sources, targets


def join_parallel(source: str, target: str, source_path: Path, target_path: Path) -> tuple[list[str], list[str]]:
    """Lines of two files that belong together."""
    sources, targets = lines_of(source), lines_of(target)
    if len(sources) != len(targets):
        raise UsageError(
            f"{source_path} has {len(sources):,} lines and {target_path} {len(targets):,}; "
            "line n of one must translate line n of the other. One of them is truncated, or of another edition"
        )
    return sources, targets


def read_column(path: Path, column: int) -> list[str]:
    """The lines of a text, or one column of a tab-separated one, counted from 1; 0 takes whole lines."""
    if not path.is_file():
        raise UsageError(f"There is no file {str(path)!r}. Name a text: plain, .gz or .zip")
    lines = lines_of(decode(read_content(path), path))
    if not column:
        return lines
    parts = [line.split("\t") for line in lines]
    short = next((number for number, part in enumerate(parts, start=1) if len(part) < column), None)
    if short is not None:
        raise UsageError(f"{path} has no column {column} in line {short:,}. Columns are separated by tabs")
    return [part[column - 1] for part in parts]
