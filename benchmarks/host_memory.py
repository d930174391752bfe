"""Does the batch that `legroom memory` proves in 1 GiB of host memory train within it, and is it near the largest?

    python benchmarks/host_memory.py OUT [--memory 1GiB] [--repeats 10] [--steps 100]

The job is a small convolutional network on 60,000 pictures of 28 x 28, fed by two loader processes and evaluated on
10,000. `legroom memory` proves a batch; `legroom train` then runs it, `repeats` times. Where a control group can be
made (root on Linux), the training process and all below it run in one: the kernel's own mark of what it charged to them
(all they wrote and share, and what it keeps for them), with the files they run from once, is the peak. Elsewhere, and
beside it in the rows, every 20 ms this process adds up what they hold (Pss_Anon and Pss_Shmem of each, the files once),
and reads the training process's own high-water mark (VmHWM); that misses moments in which all are large at once. A
bisection of such runs, two a size and a third where these differ, finds the largest batch that stays inside to within
2 %. Each run is a JSON line in OUT/runs.jsonl.
"""

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from legroom.units import format_bytes, parse_bytes

JOB = f"{Path(__file__).with_name('mnist_like.py')}:job"
LEGROOM = (sys.executable, "-m", "legroom")
TICK_SECONDS = 0.02
CLOSE = 1.02
"""A bisection ends where the size that fits and the one that does not are this near."""


def main() -> None:
    options = read_options()
    options.out.mkdir(parents=True, exist_ok=True)
    budget = parse_bytes(options.memory)
    proved = prove(options)
    inside = sum(peak_of(proved, options.steps, options, "repeat") <= budget for _ in range(options.repeats))
    largest = bisect(proved, lambda size: mostly_inside(size, budget, options))
    print(f"proved in {options.memory}: {proved:,}; inside in {inside} of {options.repeats} runs")
    print(f"largest by bisection: {largest:,}; proved over largest: {proved / largest:.3f}")


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--memory", default="1GiB")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--steps", type=int, default=100)
    return parser.parse_args()


def prove(options: argparse.Namespace) -> int:
    """The batch that `legroom memory` proves."""
    words = ("memory", JOB, "--device", "cpu", "--memory", options.memory, "--json", "--out", options.out / "memory")
    done = subprocess.run([*LEGROOM, *words], stdout=subprocess.PIPE, check=True)
    answer = json.loads(done.stdout)
    assert answer["verified"], answer["notes"]
    keep(options, {"what": "proof", "batch_size": answer["max_batch_size"], "peak_bytes": answer["peak_bytes"]})
    return int(answer["max_batch_size"])


def peak_of(batch_size: int, num_steps: int, options: argparse.Namespace, what: str) -> int:
    """Bytes that a real training run of that batch takes."""
    words = ("train", JOB, "--device", "cpu", "--batch-size", str(batch_size), "--steps", str(num_steps))
    with subprocess.Popen(
        [*LEGROOM, *words, "--workers", "2", "--quiet", "--out", options.out / "train"], stdout=subprocess.DEVNULL
    ) as running:
        group = Group.make()
        together, alone, files = watch(running, group)
    assert running.returncode == 0, "the training run failed"
    charged = group.end() if group else None
    peak = max(together, alone) if charged is None else charged + files
    row = {
        "what": what,
        "batch_size": batch_size,
        "num_steps": num_steps,
        "tree_bytes": together,
        "process_bytes": alone,
    }
    keep(options, {**row, "charged_bytes": charged, "file_bytes": files, "peak_bytes": peak})
    print(f"{what}: a batch of {batch_size:,} took {format_bytes(peak)}", file=sys.stderr)
    return peak


def mostly_inside(batch_size: int, budget: int, options: argparse.Namespace) -> bool:
    """Whether two of three runs stay inside."""
    seen = [peak_of(batch_size, options.steps, options, "bisection") <= budget for _ in range(2)]
    return seen[0] if seen[0] == seen[1] else peak_of(batch_size, options.steps, options, "bisection") <= budget


class Group:
    """A control group of memory, of version 1 or 2."""

    MARKS = ("memory.max_usage_in_bytes", "memory.peak")

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def make(cls) -> "Group | None":
        """None where the system does not let us."""
        for root in (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")):
            folder = root / f"legroom-benchmark-{os.getpid()}-{time.monotonic_ns()}"
            try:
                folder.mkdir()
            except OSError:
                continue
            if any((folder / name).is_file() for name in cls.MARKS):
                return cls(folder)
            folder.rmdir()
        return None

    def join(self, pid: int) -> None:
        """From now on, what the process and those it forks write is charged here."""
        with contextlib.suppress(OSError):  # it has just ended
            (self.folder / "cgroup.procs").write_text(str(pid))

    def end(self) -> int:
        """The most that was charged at once."""
        found = next(self.folder / name for name in self.MARKS if (self.folder / name).is_file())
        peak = int(found.read_text())
        self.folder.rmdir()
        return peak


def watch(running: "subprocess.Popen[bytes]", group: Group | None) -> tuple[int, int, int]:
    """(peak of the tree below the command, high-water mark of its first process, files that it runs from)."""
    together = alone = before = most_files = 0
    joined: set[int] = set()
    while running.poll() is None:
        pids = [child.pid for child in psutil.Process(running.pid).children(recursive=True)]
        for pid in set(pids) - joined if group else ():
            group.join(pid)  # before it has imported torch; what it forks is in the group from its birth
            joined.add(pid)
        own = sum(read_kib(pid, "smaps_rollup", "Pss_(?:Anon|Shmem)") for pid in pids)
        files = max((read_kib(pid, "status", "RssFile") for pid in pids), default=0)
        most_files = max(most_files, files * 1024)
        now = (own + files) * 1024
        together, before = max(together, min(before, now)), now  # a fork while they are read counts pages twice
        alone = max([alone, *(read_kib(pid, "status", "VmHWM") * 1024 for pid in pids)])
        time.sleep(TICK_SECONDS)
    return together, alone, most_files


def read_kib(pid: int, file: str, name: str) -> int:
    """Numbers of that name (a pattern) that the kernel tells of a process, added up; 0 where it has ended."""
    try:
        text = Path(f"/proc/{pid}/{file}").read_text()
    except OSError:
        return 0
    return sum(map(int, re.findall(rf"^{name}:\s+(\d+) kB", text, re.MULTILINE)))


def bisect(start: int, fits: Callable[[int], bool]) -> int:
    """The largest size that fits, to within 2 %, sought from `start` on."""
    low, high = (start, 0) if fits(start) else (0, start)
    while not low or not high:
        size = int(1.1 * low) if low else int(0.9 * high)
        low, high = (size, high) if fits(size) else (low, size)
    while high > CLOSE * low:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def keep(options: argparse.Namespace, row: dict[str, Any]) -> None:
    with (options.out / "runs.jsonl").open("a") as file:
        file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
