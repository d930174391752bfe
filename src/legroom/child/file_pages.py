"""Pages of libraries that a process has touched, touched again after a fork.

A fork copies the map of what a process wrote, not of the files it runs from: a forked child would seem 50 MiB smaller
than one that imported torch itself, until it happens to read the same pages.
"""

import ctypes
import re
from pathlib import Path

import numpy as np

from legroom.host.process_memory import PAGE_BYTES

MAPPED_FILE = re.compile(r"^(\w+)-(\w+) \S+ \w+ \S+ \d+ +/(.*?)^VmFlags", re.MULTILINE | re.DOTALL)
UNWRITTEN = re.compile(r"^Rss: +[1-9].*^Anonymous: +0 kB", re.MULTILINE | re.DOTALL)
PRESENT = np.uint64(63)
"""The bit that tells so in /proc/self/pagemap, which has 8 bytes a page."""
MADV_POPULATE_READ = 22
"""Linux 5.14; older kernels refuse it, and pages stay untouched."""

Pages = list[tuple[int, int]]
"""Address and bytes of each stretch."""


def touched_pages() -> Pages:
    """Stretches of files in this process's memory that a fork will leave out."""
    found: Pages = []
    with Path("/proc/self/pagemap").open("rb", buffering=0) as pages:
        for first, last, details in MAPPED_FILE.findall(Path("/proc/self/smaps").read_text()):
            if UNWRITTEN.search(details):
                start, num_bytes = int(first, 16), int(last, 16) - int(first, 16)
                pages.seek(8 * start // PAGE_BYTES)
                words = np.frombuffer(pages.read(8 * num_bytes // PAGE_BYTES), np.uint64)
                found += _stretches(start, words >> PRESENT)
    return found


def _stretches(start: int, present: "np.ndarray[tuple[int], np.dtype[np.uint64]]") -> Pages:
    """Runs of pages that are present, by address."""
    edges = np.flatnonzero(np.diff(present.astype(np.int8), prepend=0, append=0)) * PAGE_BYTES
    return [(start + int(low), int(high - low)) for low, high in edges.reshape(-1, 2)]


def touch(pages: Pages) -> None:
    """Have them in this process's memory too: some milliseconds."""
    madvise = ctypes.CDLL(None).madvise
    for address, num_bytes in pages:
        madvise(ctypes.c_void_p(address), ctypes.c_size_t(num_bytes), MADV_POPULATE_READ)
