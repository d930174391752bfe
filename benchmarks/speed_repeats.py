"""Whether `legroom speed` repeats itself, and whether a plain loop in a fresh process agrees.

    python benchmarks/speed_repeats.py OUT [--jobs cnn,mlp,encoder] [--runs 10] [--checks 7] [--seconds 15]

`legroom speed` is asked as often as --runs says. Before, between and after these runs a plain loop is timed at 2^k to
the largest size, each in a process of its own, as often as --checks says. Single passes differ by up to a
third, and one in a hundred is a hundredfold slow, so the median over passes is the truth. Told: how much of the truth's
best the knee has by the truth, how far timed sizes lie from it, and how often the interval of one run holds what
another timed. OUT holds a JSON line a measurement; a job that has all its runs is not run again.
"""

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PLAIN_SECONDS = 0.7
LARGEST = 4096
ENOUGH = 0.85


def ask_legroom(job: str, words: argparse.Namespace) -> dict[str, Any]:
    """One answer, of which the knee and the points are kept."""
    started = time.monotonic()
    command = [sys.executable, "-m", "legroom", "speed", f"{HERE / 'legroom_jobs.py'}:job", "--with", f"name={job}"]
    with tempfile.TemporaryDirectory() as folder:
        more = ["--device", "cpu", "--json", "--seconds", str(words.seconds), "--out", folder]
        done = subprocess.run([*command, *more], capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout)
    names = ("batch_size", "median_seconds", "interval", "samples_per_second")
    points = [{name: point[name] for name in names} for point in answer["points"]]
    law = {name: answer["law"][name] for name in ("refused", "mean_error", "worst_error")}
    seconds = time.monotonic() - started
    return {"knee": answer["knee_batch_size"], "points": points, "law": law, "seconds": seconds}


def ask_plain(job: str, batch_size: int) -> float:
    """Samples a second of a plain loop at that size, in a process of its own."""
    command = [sys.executable, str(HERE / "plain_loop.py"), "steps", job, str(batch_size), str(PLAIN_SECONDS)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def measure(job: str, words: argparse.Namespace) -> Iterable[dict[str, Any]]:
    """Runs with checks spread evenly among them."""
    checks = {round(place * words.runs / max(1, words.checks - 1)) for place in range(words.checks)}
    for run in range(words.runs + 1):
        if run in checks:
            sizes = [2**power for power in range(LARGEST.bit_length())]
            yield {"job": job, "plain": {size: ask_plain(job, size) for size in sizes}}
        if run < words.runs:
            yield {"job": job, "answer": ask_legroom(job, words)}


def score(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What the rows of one job say."""
    answers = [row["answer"] for row in rows if "answer" in row]
    plain = [row["plain"] for row in rows if "plain" in row]
    truth = {int(size): statistics.median(one[size] for one in plain) for size in plain[0]}
    shares = [share_of_best(truth, answer["knee"]) for answer in answers]
    misses = [
        abs(point["samples_per_second"] / truth[point["batch_size"]] - 1)
        for answer in answers
        for point in answer["points"]
        if point["batch_size"] in truth
    ]
    held = list(_held(answers))
    return {
        "knees": [answer["knee"] for answer in answers],
        "enough": sum(share >= ENOUGH for share in shares),
        "least": min(shares),
        "miss": statistics.median(misses),
        "held": sum(held) / len(held),
        "refused": sum(answer["law"]["refused"] for answer in answers),
        "seconds": statistics.median(answer["seconds"] for answer in answers),
    }


def share_of_best(truth: dict[int, float], size: int) -> float:
    """What the size has of the best; between two sizes of the truth by a line in logarithms.

    >>> share_of_best({1: 1.0, 4: 4.0, 16: 8.0}, 2)
    0.25
    """
    sizes = sorted(truth)
    low = max(other for other in sizes if other <= size)
    high = min((other for other in sizes if other >= size), default=low)
    place = math.log(size / low) / math.log(high / low) if high > low else 0.0
    return round(truth[low] ** (1 - place) * truth[high] ** place / max(truth.values()), 12)


def _held(answers: list[dict[str, Any]]) -> Iterable[bool]:
    """For each size and each pair of runs, whether the interval of the one holds the time of the other."""
    by_size = [{point["batch_size"]: point for point in answer["points"]} for answer in answers]
    for one in by_size:
        for other in by_size:
            for size in one.keys() & other.keys() if one is not other else ():
                low, high = one[size]["interval"]
                yield low <= other[size]["median_seconds"] <= high


def main() -> None:
    """Measure what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--jobs", default="cnn,mlp,encoder")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--checks", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=15.0)
    words = parser.parse_args()
    rows = [json.loads(line) for line in words.out.read_text().splitlines()] if words.out.exists() else []
    print("| job | knees | at least 85 % of the best | least | sizes off by | reruns held | laws refused | seconds |")
    print("|---|---|---|---|---|---|---|---|")
    for job in words.jobs.split(","):
        mine = [row for row in rows if row["job"] == job]
        if sum("answer" in row for row in mine) < words.runs:
            mine = []
            for row in measure(job, words):
                mine.append(json.loads(json.dumps(row)))
                with words.out.open("a") as file:
                    file.write(json.dumps(row) + "\n")
        found = score(mine)
        cells = (
            job, " ".join(map(str, found["knees"])), f"{found['enough']} of {words.runs}", f"{found['least']:.0%}",
            f"{found['miss']:.0%}", f"{found['held']:.0%}", found["refused"], f"{found['seconds']:.0f}",
        )  # fmt: skip
        print(f"| {' | '.join(map(str, cells))} |", flush=True)


if __name__ == "__main__":
    main()
