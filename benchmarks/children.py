"""Children forked against children started anew: how soon they answer, how fast, how large and how alike they are.

    python benchmarks/children.py OUT [--rounds 5] [--nurseries 3] [--job cnn|mlp|encoder] [--batch-size 64]

Each round has one child of each nursery and one started anew. Of each: seconds until it has described the job, then
steps at one batch size, their page faults and the peak of memory. OUT holds a JSON line a child.
"""

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

from legroom.engines.local import LocalEngine
from legroom.job_address import JobAddress, address_of
from legroom.questions.speed.records import TimeSteps
from legroom.requests import Describe

SECONDS = 3.0
"""Of steps in each child."""


def main() -> None:
    """Measure the rounds and print what each kind of child took."""
    words = read_words()
    address = address_of(f"{Path(__file__).with_name('legroom_jobs.py')}:job", {"name": words.job})
    kinds = ["anew", *(f"forked from {number}" for number in range(words.nurseries))]
    rows = []
    for number in range(words.rounds):
        for kind in kinds if number % 2 else reversed(kinds):
            rows.append({"kind": kind, "round": number, **measure(kind, address, words.batch_size)})
            print(json.dumps(rows[-1]), flush=True)
    words.out.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for kind in kinds:
        print(describe(kind, [row for row in rows if row["kind"] == kind]))


def read_words() -> argparse.Namespace:
    """The words of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--nurseries", type=int, default=3)
    parser.add_argument("--job", default="cnn")
    parser.add_argument("--batch-size", type=int, default=64)
    return parser.parse_args()


def measure(kind: str, address: JobAddress, batch_size: int) -> dict[str, Any]:
    """One child from its start to its end; another value of any variable that Python reads makes another nursery."""
    started = time.perf_counter()
    child = LocalEngine().start(address, {"PYTHONNURSERY": kind}, alone=kind == "anew")
    try:
        seconds = {"start_seconds": time.perf_counter() - started}
        child.ask(Describe())
        seconds["described_seconds"] = time.perf_counter() - started
        before = num_faults(child._process.pid)
        point = child.ask(TimeSteps(device="cpu", batch_sizes=(batch_size,), seconds=SECONDS)).points[0]
        faults = (num_faults(child._process.pid) - before) / point.num_repeats
    finally:
        child.close()
    steps = {"step_seconds": point.median_seconds, "peak_bytes": point.peak_bytes, "system_share": point.system_share}
    return {**seconds, **steps, "faults_per_step": faults}


def num_faults(pid: int) -> int:
    """Pages that the process was given without a read from disk (proc(5), minflt)."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[7])


def describe(kind: str, rows: list[dict[str, Any]]) -> str:
    """Medians and ranges of one kind; a nursery's first child waits for its import."""

    def told(name: str, scale: float, unit: str, first: int = 0) -> str:
        values = [scale * row[name] for row in rows[first:] or rows]
        return f"{statistics.median(values):.4g} ({min(values):.4g} to {max(values):.4g}) {unit}"

    return (
        f"{kind}: first started in {rows[0]['start_seconds']:.2f} s, later {told('start_seconds', 1e3, 'ms', 1)}, "
        f"described in {told('described_seconds', 1, 's', 1)}, step {told('step_seconds', 1e3, 'ms')}, "
        f"peak {told('peak_bytes', 2**-20, 'MiB')}, {told('faults_per_step', 1, 'page faults a step')}"
    )


if __name__ == "__main__":
    main()
