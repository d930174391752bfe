"""Host memory of a process and all it started, each page counted once: what every budget of host memory means."""

import contextlib
import os
import re
from collections.abc import Sequence
from pathlib import Path

import psutil

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
SHARED_FOLDER = "/dev/shm/"


LISTS_CHILDREN = Path("/proc/thread-self/children").exists()
"""Whether the kernel tells what a thread has started. Where it does not, every process of the machine is read, which on
two busy cores keeps the threads of a step waiting for one another."""


def tree_of(pid: int) -> list[int]:
    """The process and its descendants, itself first; empty where it has ended."""
    if not LISTS_CHILDREN:
        return _tree_by_all(pid)
    found = [pid] if os.path.exists(f"/proc/{pid}") else []
    for each in found:  # which grows meanwhile
        found += _children(each)
    return found


def _children(pid: int) -> list[int]:
    """What its threads started; of those that have ended meanwhile, nothing."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    return found


def _tree_by_all(pid: int) -> list[int]:
    try:
        return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
    except psutil.Error:
        return []


def resident_bytes(pid: int) -> int:
    """Pages the process has in memory, shared ones included; cheap to read."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES
    except (OSError, IndexError, ValueError):
        return 0


def tree_bytes(pids: Sequence[int]) -> int:
    """Memory of a process and those it forked; the kernel takes some 20 ms a GiB to add it up twice.

    A process that forks while they are read one by one makes pages count twice, so the smaller of two readings counts.
    """
    return min(_tree_bytes(pids), _tree_bytes(pids))


def _tree_bytes(pids: Sequence[int]) -> int:
    """One reading.

    What they wrote is counted in proportion (a page that n of them share counts 1/n for each), batches under way
    between them by their size, and the files they run from once: other programs run from the same.
    """
    sizes = [_sizes(pid) for pid in pids]
    written = sum(size.get("Pss_Anon", 0) for size in sizes)
    mapped = sum(size.get("Pss_Shmem", 0) for size in sizes)
    files = max((size.get("RssFile", 0) for size in sizes), default=0)
    return written + max(mapped, _batches_bytes(pids)) + files


def _sizes(pid: int) -> dict[str, int]:
    """What the kernel tells of one process, in bytes; empty where it has ended or the system does not tell."""
    try:
        text = "".join(Path(f"/proc/{pid}/{name}").read_text() for name in ("smaps_rollup", "status"))
    except OSError:
        return {}
    found = re.findall(r"^(Pss_Anon|Pss_Shmem|RssFile):\s+(\d+) kB", text, re.MULTILINE)
    return {name: 1024 * int(size) for name, size in found}


def _batches_bytes(pids: Sequence[int]) -> int:
    """Files in /dev/shm that they hold open: a batch on its way from a loader process is in nobody's memory map."""
    sizes: dict[int, int] = {}
    for path in (path for pid in pids for path in _open_files(pid)):
        try:
            if os.readlink(path).startswith(SHARED_FOLDER):
                status = os.stat(path)
                sizes[status.st_ino] = 512 * status.st_blocks
        except OSError:  # closed meanwhile
            continue
    return sum(sizes.values())


def _open_files(pid: int) -> list[str]:
    folder = f"/proc/{pid}/fd"
    try:
        return [f"{folder}/{name}" for name in os.listdir(folder)]
    except OSError:
        return []
