"""A real plan killed ten times at random moments and resumed, beside one that nobody killed.

    python benchmarks/plan_kills.py OUT [JOB] [--kills 10] [--budget 2min] [--seed 0]

SIGKILL ends the command and all that it started; the last start goes on to the end. Nothing that was measured may be
measured again, and the forecast of the killed plan should lie in the range of the whole one. A row is printed, and
written as OUT/kills.md.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from legroom.logbook import FILE_NAME, read_lines


def command_of(job: str, budget: str, out: Path) -> list[str]:
    """The plan in that folder; it goes on where one was there."""
    words = ["plan", job, "--device", "cpu", "--budget", budget, "--resume", "--quiet", "--json", "--out", str(out)]
    return [sys.executable, "-m", "legroom", *words]


def kill_after(command: list[str], seconds: float) -> bool:
    """Whether the command was killed; it may have come to its end before."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, process_group=0) as parent:
        try:
            parent.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(parent.pid, signal.SIGKILL)
            return True
    return False


def repeated(folder: Path) -> int:
    """Measurements that were made more than once."""
    _, entries, _ = read_lines(folder / FILE_NAME)
    requests = [repr(entry.request) for entry in entries]
    return len(requests) - len(set(requests))


def row(whole: dict[str, Any], killed: dict[str, Any], num_kills: int, num_repeated: int, job: str) -> list[str]:
    """What both came to."""
    return [job, str(num_kills), str(num_repeated), *(_words(plan) for plan in (whole, killed)), _inside(whole, killed)]


def _words(plan: dict[str, Any]) -> str:
    told = f"batch {plan['batch_size']}, rate {plan['learning_rate']:.3g}"
    if plan["predicted_seconds"] is not None:
        low, high = plan["predicted_range"]
        told += f": {plan['predicted_seconds']:.3g} s ({low:.3g} to {high:.3g})"
    return f"{told}; cost {plan['cost_seconds']:.0f} s"


def _inside(whole: dict[str, Any], killed: dict[str, Any]) -> str:
    if whole["predicted_seconds"] is None or killed["predicted_seconds"] is None:
        return "no forecast"
    low, high = whole["predicted_range"]
    return "yes" if low <= killed["predicted_seconds"] <= high else "no"


HEADS = ("job", "kills", "measured again", "whole plan", "killed plan", "forecast inside the whole plan's range")


def main() -> None:
    """Make both plans, and print the row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("job", nargs="?", default="digits")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--budget", default="2min")
    parser.add_argument("--seed", type=int, default=0)
    words = parser.parse_args()
    rng, started = random.Random(words.seed), time.monotonic()
    whole = _plan(command_of(words.job, words.budget, words.out / "whole"))
    most = 2 * (time.monotonic() - started) / words.kills
    command, num_kills = command_of(words.job, words.budget, words.out / "killed"), 0
    for _ in range(words.kills):
        # Starting and recalling takes a second, which a kill may meet as well.
        num_kills += kill_after(command, 1.0 + rng.uniform(0, most))
    killed = _plan(command)
    found = row(whole, killed, num_kills, repeated(words.out / "killed"), words.job.rsplit("/", 1)[-1])
    text = "".join(f"| {' | '.join(line)} |\n" for line in (HEADS, ("---",) * len(HEADS), found))
    (words.out / "kills.md").write_text(text)
    print(text)


def _plan(command: list[str]) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    return answer


if __name__ == "__main__":
    main()
