"""Children forked against children started anew: how soon they answer, how fast and how large they are.

    python benchmarks/children.py OUT [--pairs 5] [--job cnn|mlp|encoder] [--batch-size 64] [--seconds 3]

Pairs run one after the other, in turns the forked and the new one first. Of each child: seconds until it has
described the job, then steps at one batch size as `legroom speed` times them. OUT holds a JSON line a child.
"""

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

from legroom.engines.local import LocalEngine
from legroom.environments import UNCHANGED
from legroom.job_address import JobAddress, address_of
from legroom.questions.speed.records import TimeSteps
from legroom.requests import Describe

KINDS = {"forked": False, "anew": True}


def main() -> None:
    """Measure the pairs and print medians."""
    words = read_words()
    address = address_of(f"{Path(__file__).with_name('legroom_jobs.py')}:job", {"name": words.job})
    first = measure("first forked", address, words)  # its nursery has to import torch
    rows = [first]
    for number in range(words.pairs):
        kinds = list(KINDS) if number % 2 else list(reversed(KINDS))
        rows += [measure(kind, address, words) for kind in kinds]
    words.out.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for kind in ("first forked", *KINDS):
        print(describe(kind, [row for row in rows if row["kind"] == kind]))


def read_words() -> argparse.Namespace:
    """The words of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--job", default="cnn")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=3.0, help="of steps in each child")
    return parser.parse_args()


def measure(kind: str, address: JobAddress, words: argparse.Namespace) -> dict[str, Any]:
    """One child from its start to its end."""
    started = time.perf_counter()
    child = LocalEngine().start(address, UNCHANGED, alone=KINDS.get(kind, False))
    try:
        start_seconds = time.perf_counter() - started
        child.ask(Describe())
        described = time.perf_counter() - started
        request = TimeSteps(device="cpu", batch_sizes=(words.batch_size,), run=1, seconds=words.seconds)
        point = child.ask(request).points[0]
    finally:
        child.close()
    steps = {"step_seconds": point.median_seconds, "peak_bytes": point.peak_bytes, "system": point.system_share}
    return {"kind": kind, "start_seconds": start_seconds, "described_seconds": described, **steps}


def describe(kind: str, rows: list[dict[str, Any]]) -> str:
    """Medians and ranges of one kind."""

    def told(name: str, scale: float, unit: str) -> str:
        values = [scale * row[name] for row in rows]
        return f"{statistics.median(values):.4g} ({min(values):.4g} to {max(values):.4g}) {unit}"

    return (
        f"{kind}: started in {told('start_seconds', 1e3, 'ms')}, described in {told('described_seconds', 1, 's')}, "
        f"step {told('step_seconds', 1e3, 'ms')}, peak {told('peak_bytes', 2**-20, 'MiB')}"
    )


if __name__ == "__main__":
    main()
