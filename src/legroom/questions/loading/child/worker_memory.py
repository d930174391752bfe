"""What loader workers hold of the host's memory, each for itself and in all."""

import re
from collections.abc import Sequence
from pathlib import Path

import psutil

NUM_LOOKED_AT = 8
"""Workers do the same work, and the kernel takes up to 10 ms to add up the pages of one."""


def worker_memory(pids: Sequence[int]) -> tuple[int, int]:
    """(private, resident) bytes of the largest of the first workers, which hold most; zeros where there is none."""
    seen = [(_private_bytes(pid), _resident_bytes(pid)) for pid in pids[:NUM_LOOKED_AT]]
    return max((private for private, _ in seen), default=0), max((resident for _, resident in seen), default=0)


def _private_bytes(pid: int) -> int:
    """Pages of this process alone: forked workers share the data set with their parent until they write to it."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return _resident_bytes(pid)
    return sum(int(size) * 1024 for size in re.findall(r"^Private_(?:Clean|Dirty):\s+(\d+) kB", text, re.MULTILINE))


def _resident_bytes(pid: int) -> int:
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0
