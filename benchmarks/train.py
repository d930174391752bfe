"""`legroom train` against a plain script of the same job, each started by itself in the environment as it is.

    python benchmarks/train.py OUT [--jobs cnn,mlp,encoder] [--batch-sizes 16,64,512] [--pairs 9] [--seconds 2.5]

A pair runs both, one after the other, the plain script first in every second one. Both are timed by the job's own loss,
from its 21st call to its last. A ratio is legroom's samples/s over the script's; above 1 legroom is faster. OUT holds a
JSON line a cell; one that is there is not run again.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from plain_jobs import WARM_STEPS

from legroom.laws.intervals import median_interval

HERE = Path(__file__).parent
FIRST_STEPS = 200
"""Of the run that tells how many steps fill the seconds."""


def rate(command: list[str], num_steps: int) -> float:
    """Samples a second by the job's own clock."""
    with tempfile.TemporaryDirectory() as folder:
        watch = Path(folder) / "rate"
        environment = {**os.environ, "STOPWATCH": str(watch), "STOP_AFTER": str(num_steps)}
        subprocess.run(command, env=environment, cwd=folder, check=True, capture_output=True)
        return float(json.loads(watch.read_text()))


def plain(job: str, batch_size: int, num_steps: int) -> float:
    """The script's."""
    return rate([sys.executable, str(HERE / "plain_loop.py"), "train", job, str(batch_size), str(num_steps)], num_steps)


def legroom(job: str, batch_size: int, num_steps: int) -> float:
    """legroom's."""
    words = ["train", f"{HERE / 'legroom_jobs.py'}:job", "--with", f"name={job}", "--device", "cpu", "--quiet"]
    sizes = ["--batch-size", str(batch_size), "--steps", str(num_steps)]
    return rate([sys.executable, "-m", "legroom", *words, *sizes], num_steps)


def measure(job: str, batch_size: int, words: argparse.Namespace) -> dict[str, Any]:
    """One cell."""
    first = plain(job, batch_size, FIRST_STEPS)
    num_steps = WARM_STEPS + max(20, round(words.seconds * first / batch_size))
    pairs = []
    for pair in range(words.pairs):
        order = [plain, legroom] if pair % 2 else [legroom, plain]
        seen = {run: run(job, batch_size, num_steps) for run in order}
        pairs.append((seen[legroom], seen[plain]))
    return {"job": job, "batch_size": batch_size, "num_steps": num_steps, "pairs": pairs}


def describe(row: dict[str, Any]) -> str:
    """A cell as a line of the table."""
    ratios = [ours / theirs for ours, theirs in row["pairs"]]
    low, high = median_interval(ratios)
    ours, theirs = (statistics.median(side) for side in zip(*row["pairs"], strict=True))
    cells = (
        row["job"], row["batch_size"], f"{theirs:,.0f}", f"{ours:,.0f}", f"{statistics.median(ratios):.3f}",
        f"{low:.3f} to {high:.3f}",
    )  # fmt: skip
    return f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    """Measure what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--jobs", default="cnn,mlp,encoder")
    parser.add_argument("--batch-sizes", default="16,64,512")
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=2.5, help="of each run, about")
    words = parser.parse_args()
    rows = [json.loads(line) for line in words.out.read_text().splitlines()] if words.out.exists() else []
    print("| job | batch | script, samples/s | legroom, samples/s | ratio | 95 % |\n|---|---|---|---|---|---|")
    for job in words.jobs.split(","):
        for size in map(int, words.batch_sizes.split(",")):
            row = next((row for row in rows if (row["job"], row["batch_size"]) == (job, size)), None)
            if row is None:
                row = measure(job, size, words)
                rows.append(row)
                with words.out.open("a") as file:
                    file.write(json.dumps(row) + "\n")
            print(describe(row), flush=True)
    middle = [statistics.median(ours / theirs for ours, theirs in row["pairs"]) for row in rows]
    print(f"lowest {min(middle):.3f}, median of cells {statistics.median(middle):.3f}")


if __name__ == "__main__":
    main()
