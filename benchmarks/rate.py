"""`legroom rate` beside a sweep, the greedy search and Lightning's lr_find, all run again on fresh seeds.

    python benchmarks/rate.py OUT [--jobs digits digits:cnn ...] [--budget 90] [--data DIR]

For each job: three runs of its own settings, whose middle end is the target; a sweep of 4 batch sizes (half, once,
twice, four times the job's own) and 5 rates a factor 3 apart around its own, one seed, constant rate, evaluated every
twentieth of the job's own samples, ended after 6 evaluations without gain of the loss or by the job's own samples; the
searches at the job's own batch size. What each recommends is run on five fresh seeds: constant rates to the first
evaluation at the target, ours at the length told, and 1.25 times longer until it is there. Runs that do not get there
within twice the job's own samples count as that, and are counted. Every row lies in OUT/rate.jsonl; a row that is there
is not run again.

The critical batch size is fitted to the sweep's fewest updates at each batch size; rules that carry the job's best rate
to the sweep's other batch sizes are scored by log2 of the updates, between the sweep's cells, over the fewest there.
"""

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from legroom import api
from legroom.errors import LegroomError
from legroom.job import Job, Settings
from legroom.job_address import JobAddress, load_job
from legroom.laws.steps import best_rate, fit_steps
from legroom.training.loop import Run
from legroom.training.records import Train

SIZES, RATES = (0.5, 1, 2, 4), (1 / 9, 1 / 3, 1, 3, 9)
FRESH = range(1000, 1005)
PATIENCE, LOOKS, LONGER = 6, 20, 1.25
KEPT = (
    "learning_rate", "schedule", "warmup_steps", "num_steps", "reached", "num_samples", "sensitivity", "rule",
    "critical_batch_size", "critical_range", "noise_scale", "noise_range", "seconds", "notes",
)  # fmt: skip
"""Of an answer, what a row holds."""


class Rows:
    """What was run, on disk line by line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.known = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def get(self, make: Callable[[], dict[str, Any]], **key: Any) -> dict[str, Any]:
        """The row of that key: read, or made and written."""
        for row in self.known:
            if all(row.get(name) == value for name, value in key.items()):
                return row
        started = time.monotonic()
        row = {**key, **make(), "wall_seconds": round(time.monotonic() - started, 2)}
        with self.path.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print({name: value for name, value in row.items() if name != "values"}, flush=True)
        self.known.append(row)
        return row


class Bench:
    """One job, its data and its target."""

    def __init__(self, word: str, rows: Rows, data: str | None) -> None:
        name, _, model = word.partition(":")
        self.word, self.name, self.rows = word, name, rows
        self.options = ({"model": model} if model else {}) | ({"data": data} if data else {})
        self.job: Job = load_job(JobAddress(text=name, options=self.options))
        self.train, self.valid, self.own = self.job.train_data(), self.job.valid_data(), self.job.baseline  # type: ignore[misc]
        self.samples = self.own.num_epochs * len(self.train)
        self.target = 0.0

    def run(self, settings: Settings, num_steps: int, **more: Any) -> dict[str, Any]:
        """One run; its evaluations as (update, score)."""
        request = Train(device="cpu", settings=asdict(settings), num_steps=num_steps, **more)
        done = Run(self.job, request, self.train, self.valid).go()
        return {
            "values": [(found.step, found.score) for found in done.evaluations],
            "num_steps": done.num_steps,
            "num_samples": done.num_steps * settings.batch_size,
            "stopped": done.stopped_because,
        }

    def updates(self, row: dict[str, Any]) -> int | None:
        """Updates to the first evaluation at the target."""
        return next((step for step, score in row["values"] if score is not None and score >= self.target), None)

    def every(self, size: int) -> int:
        """Updates between evaluations: a twentieth of the job's own samples."""
        return max(1, self.samples // size // LOOKS)

    def set_target(self) -> None:
        """The middle of three runs by the job's own settings, each the median of its last nine evaluations."""
        ends = []
        for seed in range(3):
            num, settings = self.samples // self.own.batch_size, replace(self.own, seed=seed)
            row = self.rows.get(
                lambda num=num, settings=settings: self.run(settings, num, evaluate_steps=max(1, num // 50)),  # type: ignore[misc]
                job=self.word, what="own", seed=seed,
            )  # fmt: skip
            ends.append(statistics.median_low([score for _, score in row["values"]][-9:]))
        self.target = statistics.median_low(ends)

    def sweep(self) -> list[dict[str, Any]]:
        """Every cell."""
        cells = []
        for factor in SIZES:
            for times in RATES:
                size, rate = max(1, round(self.own.batch_size * factor)), self.own.learning_rate * times
                settings = replace(self.own, batch_size=size, learning_rate=rate, schedule="constant", seed=0)
                more = {"evaluate_steps": self.every(size), "patience": PATIENCE}
                row = self.rows.get(
                    lambda s=settings, m=more: self.run(s, self.samples // s.batch_size, **m),  # type: ignore[misc]
                    job=self.word, what="sweep", batch_size=size, learning_rate=rate,
                )  # fmt: skip
                cells.append({**row, "updates": self.updates(row)})
        return cells

    def search(self, method: str, budget: float, out: Path) -> dict[str, Any]:
        """What `legroom rate` says at the job's own batch size."""

        def ask() -> dict[str, Any]:
            words = {"target": f"score={self.target!r}"}
            run = api.Run(out=out / self.word.replace(":", "-") / method, resume=True, seed=100)
            try:
                answer = api.rate(
                    self.name, options=self.options, device="cpu", batch_size=self.own.batch_size, method=method,
                    budget=budget, run=run, **words,
                )  # fmt: skip
            except LegroomError as error:
                return {"error": str(error)}
            return {name: getattr(answer, name) for name in KEPT}

        return self.rows.get(ask, job=self.word, what=method)

    def again(self, what: str, rate: float, **found: Any) -> list[int | None]:
        """Updates to the target on each fresh seed."""
        counts = []
        size, most = self.own.batch_size, 2 * self.samples // self.own.batch_size
        for seed in FRESH:
            settings = replace(self.own, learning_rate=rate, seed=seed, schedule="constant")
            if what == "auto":
                settings = replace(settings, schedule=found["schedule"], warmup_steps=found["warmup_steps"])
                row = self.rows.get(
                    lambda s=settings: self._longer(s, found["num_steps"], most),  # type: ignore[misc]
                    job=self.word, what="again auto", seed=seed, learning_rate=rate,
                )  # fmt: skip
            else:
                more = {"evaluate_steps": self.every(size), "target": ("score", self.target)}
                row = self.rows.get(
                    lambda s=settings, m=more: self.run(s, most, **m),  # type: ignore[misc]
                    job=self.word, what=f"again {what}", seed=seed, learning_rate=rate,
                )  # fmt: skip
            counts.append(self.updates(row))
        return counts

    def _longer(self, settings: Settings, num_steps: int, most: int) -> dict[str, Any]:
        """Whole runs, each 1.25 times as long, until one ends at the target."""
        values: list[tuple[int, float | None]] = []
        paid = 0
        while num_steps <= most:
            warmup = min(settings.warmup_steps, num_steps // 2)
            done = self.run(replace(settings, warmup_steps=warmup), num_steps, evaluate_steps=num_steps)
            values, paid = [*values, *done["values"]], paid + done["num_samples"]
            if values and values[-1][1] is not None and values[-1][1] >= self.target:
                break
            num_steps = round(num_steps * LONGER)
        return {"values": values, "num_samples": paid}


def lightning_rate(bench: Bench) -> dict[str, Any]:
    """What Lightning's lr_find suggests, from 1e-6 to 10 in a hundred updates."""
    try:
        import lightning
        from lightning.pytorch.tuner import Tuner
    except ImportError as error:
        return {"error": f"not importable: {error}"}
    import torch

    class Wrapped(lightning.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model, self.learning_rate = bench.job.model(), bench.own.learning_rate

        def training_step(self, batch: Any, index: int) -> Any:
            found = bench.job.loss(self.model, batch)  # type: ignore[misc]
            return found[0] if isinstance(found, tuple) else found

        def configure_optimizers(self) -> Any:
            return bench.job.optimizer(self.model, self.learning_rate)  # type: ignore[misc]

    torch.manual_seed(100)
    loader = torch.utils.data.DataLoader(
        bench.train, bench.own.batch_size, shuffle=True, collate_fn=bench.job.collate, drop_last=True
    )
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "accelerator": "cpu"}
    trainer = lightning.Trainer(max_epochs=100, enable_model_summary=False, **quiet)
    found = Tuner(trainer).lr_find(Wrapped(), loader, min_lr=1e-6, max_lr=10.0, num_training=100)
    return {"learning_rate": found.suggestion(), "num_samples": 100 * bench.own.batch_size}


def missing(package: str) -> dict[str, Any]:
    """Why a peer was not run."""
    import importlib.util

    known = importlib.util.find_spec(package) is not None
    return {"error": "importable, but this script does not drive it yet" if known else f"{package} is not installed"}


def middle(counts: Iterable[int | None], most: int) -> tuple[float, int]:
    """The middle count, and how many did not get there."""
    known = list(counts)
    return statistics.median([most if count is None else count for count in known]), known.count(None)


def score_transfer(bench: Bench, cells: list[dict[str, Any]], critical: float | None) -> dict[str, float]:
    """Mean regret of each rule over the sweep's other batch sizes."""
    own = [cell for cell in cells if cell["batch_size"] == bench.own.batch_size and cell["updates"]]
    if not own:
        return {}
    base = min(own, key=lambda cell: cell["updates"])
    regrets: dict[str, list[float]] = {}
    for size in sorted({cell["batch_size"] for cell in cells} - {bench.own.batch_size}):
        there = sorted((c["learning_rate"], c["updates"]) for c in cells if c["batch_size"] == size)
        known = [updates for _, updates in there if updates]
        if not known:
            continue
        k, rate = size / bench.own.batch_size, base["learning_rate"]
        rules = {"linear": rate * k, "sqrt": rate * math.sqrt(k)}
        if critical:
            rules["measured"] = best_rate(rate, bench.own.batch_size, size, critical, 1.0)
        for name, carried in rules.items():
            updates = between(there, carried)
            regrets.setdefault(name, []).append(2.0 if updates is None else min(2.0, math.log2(updates / min(known))))
    return {name: round(statistics.fmean(values), 3) for name, values in regrets.items()}


def between(cells: list[tuple[float, int | None]], rate: float) -> float | None:
    """Updates at a rate between two cells, on a line over ln rate; None where a neighbour did not get there."""
    below, above = [c for c in cells if c[0] <= rate * 1.001], [c for c in cells if c[0] >= rate * 0.999]
    if not below or not above:
        nearest = (above or below)[0 if above else -1]
        return nearest[1]
    (low, first), (high, second) = below[-1], above[0]
    if first is None or second is None:
        return None
    share = 0.0 if high == low else math.log(rate / low) / math.log(high / low)
    return float(first * (second / first) ** min(1.0, max(0.0, share)))


def judge(bench: Bench, budget: float, out: Path) -> None:
    """All that is asked of one job, and its lines of the table."""
    bench.set_target()
    cells = bench.sweep()
    most, paid = 2 * bench.samples // bench.own.batch_size, sum(cell["num_samples"] for cell in cells)
    print(f"\n{bench.word}: target score {bench.target:.4f}; sweep of {len(cells)} cells, {paid:,} samples")
    for cell in cells:
        print(f"  B {cell['batch_size']:5d} rate {cell['learning_rate']:8.4g} updates {cell['updates']}")
    own = [cell for cell in cells if cell["batch_size"] == bench.own.batch_size and cell["updates"]]
    found = {name: bench.search(name, budget, out) for name in ("auto", "greedy")}
    found["lr_find"] = bench.rows.get(lambda: lightning_rate(bench), job=bench.word, what="lr_find")
    found["torch-lr-finder"], found["hyperband"] = missing("torch_lr_finder"), missing("optuna")
    if own:
        best = min(own, key=lambda cell: cell["updates"])
        found = {"sweep": {"learning_rate": best["learning_rate"], "num_samples": paid}, **found}
    base = None
    for name, answer in found.items():
        if "error" in answer:
            print(f"  {name:16s} left out: {answer['error']}")
            continue
        rate = answer["learning_rate"]
        rest = {key: value for key, value in answer.items() if key in ("schedule", "warmup_steps", "num_steps")}
        counts = bench.again(name, rate, **rest)
        updates, num_missed = middle(counts, most)
        base = updates if name == "sweep" else base
        ratio = f"{updates / base:.2f} of the sweep's" if base else "no sweep cell got there"
        cost = answer["num_samples"] / paid
        print(f"  {name:16s} rate {rate:8.4g} updates {updates:6.0f} ({counts}, {num_missed} missed) {ratio}; "
              f"samples {answer['num_samples']:,} = {cost:.3f} of the sweep")  # fmt: skip
    fewest = {size: min(u for c in cells if c["batch_size"] == size and (u := c["updates"]))
              for size in sorted({c["batch_size"] for c in cells if c["updates"]})}  # fmt: skip
    if len(fewest) > 1:
        law, auto = fit_steps(list(fewest), list(fewest.values())), found["auto"]
        told, guess = auto.get("critical_batch_size"), auto.get("noise_scale")
        print(f"  B_crit by the sweep {law.critical_batch_size:.0f} {law.critical_range}; told {told} "
              f"{auto.get('critical_range')}; noise scale {guess}; fewest updates {fewest}")  # fmt: skip
        print(f"  mean regret of transfer: {score_transfer(bench, cells, told or guess)}")


def main() -> None:
    """Every job in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--jobs", nargs="+", default=["digits", "digits:cnn"], metavar="JOB[:MODEL]")
    parser.add_argument("--budget", type=float, default=90.0)
    parser.add_argument("--data", default=None)
    words = parser.parse_args()
    words.out.mkdir(parents=True, exist_ok=True)
    rows = Rows(words.out / "rate.jsonl")
    for word in words.jobs:
        judge(Bench(word, rows, words.data), words.budget, words.out / "folders")


if __name__ == "__main__":
    main()
