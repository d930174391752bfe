"""What `legroom loading` says against a plain loop over the same loader in a fresh process, as ratios in one run.

    python benchmarks/loading_plain.py OUT [--pairs 3] [--jobs digits images]

A pair is the command, then four seconds of `for batch in DataLoader: step` for each number of workers that the command
raced, each in a process of its own with the environment this one has. The first batches start workers, threads and
memory and are not timed; ends of epochs are. `rate` is the rate told over the plain loop's with the same settings,
`choice` the plain loop's rate with the workers chosen over its best. Rows are JSON lines in OUT.
"""

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import legroom

JOBS = {"digits": "digits", "images": f"{Path(__file__).resolve()}:images"}
NUM_WARM = 20
NUM_SECONDS = 4.0


def images() -> legroom.Job:
    """Sixty thousand images of 28x28 in memory, and a small network."""
    return legroom.Job(
        model=lambda: nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(),
            nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16 * 49, 10),
        ),
        train_data=lambda: TensorDataset(torch.rand(60_000, 1, 28, 28), torch.randint(0, 10, (60_000,))),
        loss=lambda model, batch: nn.functional.cross_entropy(model(batch[0]), batch[1]),
        optimizer=lambda model, rate: torch.optim.SGD(model.parameters(), rate, momentum=0.9),
        baseline=legroom.Settings(batch_size=64, learning_rate=0.05),
    )  # fmt: skip


def plain_rate(address: str, batch_size: int, num_workers: int) -> float:
    """Samples over seconds of epoch after epoch, the first batches aside."""
    job = legroom.load_job(legroom.JobAddress(text=address))
    model = job.model()
    optimizer = job.optimizer(model, job.baseline.learning_rate)
    more = {"num_workers": num_workers, "persistent_workers": num_workers > 0}
    loader = DataLoader(job.train_data(), batch_size, shuffle=True, collate_fn=job.collate, drop_last=True, **more)
    started, num_batches = time.perf_counter(), -NUM_WARM
    for batch in itertools.chain.from_iterable(itertools.repeat(loader)):
        if num_batches == 0:
            started = time.perf_counter()
        optimizer.zero_grad()
        job.loss(model, batch).backward()
        optimizer.step()
        num_batches += 1
        if num_batches > 0 and time.perf_counter() - started > NUM_SECONDS:
            break
    return num_batches * batch_size / (time.perf_counter() - started)


def told(address: str) -> dict[str, Any]:
    """The command's answer."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "legroom", "loading", address, "--device", "cpu", "--json", "--out", folder]
        return json.loads(subprocess.run(words, capture_output=True, check=True).stdout)


def compare(address: str) -> dict[str, Any]:
    """One pair."""
    answer = told(address)
    rates = {}
    for num in sorted({point["num_workers"] for point in answer["points"]}):
        words = [sys.executable, __file__, "--plain", address, f"{answer['batch_size']}", f"{num}"]
        rates[num] = float(subprocess.run(words, capture_output=True, check=True).stdout)
    plain = rates[answer["num_workers"]]
    return {
        "num_workers": answer["num_workers"],
        "told": answer["samples_per_second"],
        "plain": rates,
        "rate": answer["samples_per_second"] / plain,
        "choice": plain / max(rates.values()),
    }


def main() -> None:
    """Compare, print and write down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--jobs", nargs="+", choices=JOBS, default=list(JOBS))
    words = parser.parse_args()
    words.out.mkdir(parents=True, exist_ok=True)
    for name in words.jobs:
        rows = [{"job": name, **compare(JOBS[name])} for _ in range(words.pairs)]
        with (words.out / "rows.jsonl").open("a") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
        middle = {key: statistics.median(row[key] for row in rows) for key in ("rate", "choice")}
        print(name, {key: round(value, 2) for key, value in middle.items()}, *rows, sep="\n  ")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--plain"]:
        print(plain_rate(sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
    else:
        main()
