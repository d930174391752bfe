"""Seconds of a step in legroom's loop against a loop written by hand on the same job, as a ratio.

    python benchmarks/loop.py OUT [--device cpu] [--pairs 12] [--jobs digits ...] [--folder]

Both loops run in one process, each time from a fresh model, in the order A B B A: what drifts falls on both. Both feed
from the same kind of DataLoader and read the loss from the device seldom. The hand-written one has no schedule, no
clock, no record and no check of the loss. With --folder legroom also writes metrics and a checkpoint an epoch, as it
does for users. A ratio is the median over pairs; its interval, by order statistics, holds it with 95 %. Rows are JSON
lines in OUT.
"""

import argparse
import gc
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader

from legroom.job import Job, Settings
from legroom.job_address import load_job
from legroom.laws.intervals import median_interval
from legroom.training.loop import Run
from legroom.training.records import Train

READ_STEPS = 100
"""Updates after which people print the loss."""
COLUMNS = ("job", "batch", "steps", "by hand", "legroom", "ratio", "95 %")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A job as both loops train it."""

    name: str
    job: Job
    settings: Settings
    data: Any


class SameBatch:
    """The same ready batch again and again: data that cost nothing."""

    def __init__(self, batch: Any, length: int) -> None:
        self.batch, self.length = batch, length

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[Any]:
        return (self.batch for _ in range(self.length))


def digits() -> Job:
    return load_job("digits")


def mnist_lstm() -> Job:
    return load_job("mnist-lstm", {"data": "synthetic"})


def ptb_small() -> Job:
    return load_job("ptb-small", {"data": "synthetic"})


def resnet50() -> Job:
    """From the zoo, in bf16, fed with one pinned batch of 64."""
    import zoo

    job = zoo.job("resnet50")
    size = 64
    batch = [torch.rand(size, 3, 224, 224).pin_memory(), torch.ones(size, dtype=torch.long).pin_memory()]
    baseline = replace(job.baseline, batch_size=size, precision="bf16")
    return replace(job, baseline=baseline, loader=lambda dataset, settings: SameBatch(batch, 10_000))


JOBS: dict[str, Callable[[], Job]] = {
    "digits": digits,
    "mnist-lstm": mnist_lstm,
    "ptb-small": ptb_small,
    "resnet50": resnet50,
}


def make_case(name: str) -> Case:
    job = JOBS[name]()
    return Case(name=name, job=job, settings=job.baseline, data=job.train_data())


def time_legroom(case: Case, device: torch.device, num_steps: int, *, in_folder: bool) -> float:
    """Seconds of that many updates by legroom, from the first batch asked for to the last loss read."""
    with tempfile.TemporaryDirectory() as folder:
        request = Train(
            device=device.type,
            settings=asdict(case.settings),
            num_steps=num_steps,
            folder=folder if in_folder else None,
        )
        run = Run(case.job, request, case.data, None)
        started = start_clock(device)
        result = run.go()
        seconds = stop_clock(device, started)
    assert result.num_steps == num_steps
    return seconds


def time_by_hand(case: Case, device: torch.device, num_steps: int) -> float:
    """Seconds of the same updates in a loop as people write it."""
    job, settings = case.job, case.settings
    torch.manual_seed(settings.seed)
    model = job.model().to(device).train()
    optimizer = job.optimizer(model, settings.learning_rate)
    started = start_clock(device)
    train_by_hand(job, settings, model, optimizer, make_loader(case, device), device, num_steps)
    return stop_clock(device, started)


def make_loader(case: Case, device: torch.device) -> Any:
    if case.job.loader is not None:
        return case.job.loader(case.data, case.settings)
    return DataLoader(
        case.data,
        case.settings.batch_size,
        shuffle=True,
        drop_last=True,
        collate_fn=case.job.collate,
        num_workers=case.settings.num_workers,
        pin_memory=device.type == "cuda",
        persistent_workers=case.settings.num_workers > 0,
    )


def train_by_hand(
    job: Job, settings: Settings, model: Any, optimizer: Any, loader: Any, device: torch.device, num_steps: int
) -> None:
    step = 0
    half = torch.autocast(device.type, torch.bfloat16) if settings.precision == "bf16" else nullcontext()
    while True:
        for batch in loader:
            optimizer.zero_grad(set_to_none=True)
            with half:
                loss = job.loss(model, to_device(batch, device))
            loss = loss[0] if isinstance(loss, tuple) else loss
            loss.backward()
            if settings.clip_norm is not None:
                torch.nn.utils.clip_grad_norm_(model.parameters(), settings.clip_norm)
            optimizer.step()
            step += 1
            if step % READ_STEPS == 0 or step == num_steps:
                loss.item()
            if step == num_steps:
                return


def to_device(batch: Any, device: torch.device) -> Any:
    if isinstance(batch, dict):
        return {name: value.to(device) if torch.is_tensor(value) else value for name, value in batch.items()}
    return [value.to(device, non_blocking=True) for value in batch]


def start_clock(device: torch.device) -> float:
    gc.collect()  # the run before leaves cycles, which would be collected on the other's time
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def stop_clock(device: torch.device, started: float) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - started


def compare(case: Case, device: torch.device, num_pairs: int, seconds: float, *, in_folder: bool) -> dict[str, Any]:
    """Pairs of both loops, each run of about that many seconds."""
    time_by_hand(case, device, 5)
    num_steps = max(10, round(seconds / (time_by_hand(case, device, 20) / 20)))
    sides = {
        "legroom": lambda: time_legroom(case, device, num_steps, in_folder=in_folder) / num_steps,
        "hand": lambda: time_by_hand(case, device, num_steps) / num_steps,
    }
    for side in sides.values():
        side()
    pairs = []
    for number in range(num_pairs):
        order = list(sides) if number % 2 else list(sides)[::-1]
        found = {name: sides[name]() for name in order}
        pairs.append((found["legroom"], found["hand"]))
    ratios = [ours / theirs for ours, theirs in pairs]
    return {
        "job": case.name,
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        "torch": torch.__version__,
        "batch_size": case.settings.batch_size,
        "precision": case.settings.precision,
        "num_steps": num_steps,
        "in_folder": in_folder,
        "pairs": pairs,
        "ratio": statistics.median(ratios),
        "ratio_range": median_interval(ratios),
    }


def describe(row: dict[str, Any]) -> str:
    """One line of the table."""
    ours, theirs = (statistics.median(column) * 1e3 for column in zip(*row["pairs"], strict=True))
    low, high = row["ratio_range"]
    cells = (
        row["job"], row["batch_size"], row["num_steps"], f"{theirs:.3f} ms", f"{ours:.3f} ms", f"{row['ratio']:.3f}",
        f"{low:.3f} to {high:.3f}",
    )  # fmt: skip
    return f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=0.7, help="of each loop in a pair")
    parser.add_argument("--jobs", nargs="+", choices=JOBS)
    parser.add_argument("--folder", action="store_true", help="legroom writes metrics and checkpoints")
    words = parser.parse_args()
    device = torch.device(words.device)
    names = words.jobs or [name for name in JOBS if name != "resnet50" or device.type == "cuda"]
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)
    with words.out.open("a") as file:
        for name in names:
            row = compare(make_case(name), device, words.pairs, words.seconds, in_folder=words.folder)
            file.write(json.dumps(row) + "\n")
            print(describe(row), flush=True)


if __name__ == "__main__":
    main()
