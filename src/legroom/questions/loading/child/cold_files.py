"""The files behind samples, and how to make them cold: dropped from the page cache one by one, without root."""

import contextlib
import ctypes
import mmap
import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

MADV_DONTNEED = 4
MAPPING = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ \S+ +(/.*)$", re.MULTILINE)
NUM_CHECKED = 32
"""Files looked at to see whether they really left the cache."""

_opened: set[str] | None = None
"""Paths opened while somebody records; None while nobody does. An audit hook cannot be taken off again."""


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open" and _opened is not None and isinstance(arguments[0], str | bytes):
        with contextlib.suppress(UnicodeDecodeError):
            _opened.add(os.path.abspath(os.fsdecode(arguments[0])))


@contextlib.contextmanager
def recording_opened() -> Iterator[set[str]]:
    """Collect the paths this process opens in the body."""
    global _opened
    if not getattr(recording_opened, "is_hooked", False):
        sys.addaudithook(_hook)
        recording_opened.is_hooked = True  # type: ignore[attr-defined]
    _opened = set()
    try:
        yield _opened
    finally:
        _opened = None


def held_files() -> set[str]:
    """Files this process holds open or mapped: an archive or array that samples are cut from."""
    with contextlib.suppress(OSError):
        held = {os.readlink(entry.path) for entry in os.scandir("/proc/self/fd") if int(entry.name) > 2}
        return held | {path for _, _, _, path in _mappings()}
    return set()


def data_files(paths: Iterable[str]) -> list[str]:
    """Those of the paths that are regular files of data: no program, library or module."""
    return sorted(path for path in set(paths) if not _is_program(path) and os.path.isfile(path))


def _is_program(path: str) -> bool:
    places = (sys.prefix, sys.base_prefix, "/usr/lib", "/lib", "/proc", "/sys", "/dev")
    return path.startswith(places) or Path(path).suffix in (".py", ".pyc", ".so") or ".so." in path


def drop_from_cache(paths: Iterable[str]) -> None:
    """Ask the kernel to forget the files' pages; pages that are mapped are unmapped here first."""
    files = set(paths)
    libc = ctypes.CDLL(None)
    for start, end, rights, path in _mappings():
        if path in files and not (rights.endswith("p") and "w" in rights):  # changed private pages would be lost
            libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), MADV_DONTNEED)
    for path in files:
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)


def _mappings() -> list[tuple[int, int, str, str]]:
    """(start, end, rights, path) of every mapped file."""
    found = MAPPING.findall(Path("/proc/self/maps").read_text())
    return [(int(start, 16), int(end, 16), rights, path) for start, end, rights, path in found]


def cached_share(paths: Iterable[str]) -> float:
    """Share of the files' pages that lie in the page cache, by the kernel's word (mincore)."""
    counts = [_cached_pages(path) for path in list(paths)[:NUM_CHECKED]]
    return sum(cached for cached, _ in counts) / max(1, sum(total for _, total in counts))


def _cached_pages(path: str) -> tuple[int, int]:
    """(cached, all) pages of a file."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size == 0:
            return 0, 0
        with mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE) as mapped:
            total = -(-size // mmap.PAGESIZE)
            flags = (ctypes.c_ubyte * total)()
            first = ctypes.c_char.from_buffer(mapped)
            address = ctypes.c_void_p(ctypes.addressof(first))
            failed = ctypes.CDLL(None).mincore(address, ctypes.c_size_t(size), flags)
            del first  # or the map could not be closed
            return (total if failed else sum(flag & 1 for flag in flags)), total
