"""`legroom rate` beside a sweep and other searches, all run again on fresh seeds; counted in updates and samples.

    python benchmarks/rate.py OUT [--jobs digits:cnn digits ...] [--budget 300] [--data DIR] [--parts main batch ...]
        [--device cuda] [--processes 8]

Busy cores are no matter: nothing here is judged by the clock. What seconds are told are those of the processor in one
thread (on a GPU of the clock), of an update measured without evaluations. Jobs of benchmarks/plan.py, reduced as it
says; some of them with fewer epochs (EPOCHS), which the table tells.

target    the worst of three runs by the job's own settings, each the median of its last nine evaluations of fifty
sweep     six batch sizes, each twice the one before, and five rates a factor 3 apart around the job's own; one seed,
          constant rate, evaluated fifty times in the job's own samples, ended after 15 evaluations without gain of the
          loss, or by the job's own samples. Searches are held against the four sizes around the job's own alone.
main      searches at the job's own batch: `auto`; `greedy` in the seconds that took; Optuna's Hyperband in the
          samples that took; a hundred updates of Lightning's lr_find and of torch-lr-finder. What each recommends is
          run on five fresh seeds to the first evaluation at the target, looked at as often: constant rates, and ours
          at the length told, anew and 1.25 times longer until one is there. Runs that are not there within twice the
          job's own samples count as that.
batch     the same of `auto` at the batch that its critical batch size says is soonest, against the sweep's cell that is
critical  the best rate of each batch size on three fresh seeds, the law fitted to them, and what `auto` told
transfer  `rate --method transfer` from the best rate at one batch to larger ones, by every rule, on three fresh seeds
headline  `auto` aiming at the best score of the whole sweep, beside the point that came to it

Every row lies in OUT/rate.jsonl; a row that is there is not run again. With --processes the runs of sweeps and on fresh
seeds are made several at a time, one thread each; searches are not.
"""

import argparse
import json
import math
import os
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import rate_peers
import torch
from plan import CASES

from legroom import api
from legroom.errors import LegroomError
from legroom.job import Job, Settings
from legroom.job_address import JobAddress, load_job
from legroom.laws.steps import StepsLaw, fit_steps
from legroom.training.branches import Trunk
from legroom.training.loop import Run
from legroom.training.records import Train

JOBS = {"digits": "digits-lstm", "digits:cnn": "digits-cnn"} | {
    name: name for name in ("mnist-lstm", "char-lm", "translation", "cifar-small")
}
EPOCHS = {"translation": 60, "mnist-lstm": 10, "cifar-small": 10}
"""In place of the job's own, so that a point of the sweep takes seconds: on one core, and of cifar-small on a GPU."""
NUM_SIZES, MOST_TIMES, RATES = 6, 16, (1 / 9, 1 / 3, 1, 3, 9)
HELD_AGAINST = (0.5, 1, 2, 4)
"""Times the job's own batch: the sizes whose samples a search is held against."""
FRESH = range(1000, 1005)
NUM_SEEDS = 3
"""Of those, for what is run at many batch sizes."""
LOOKS, PATIENCE, LONGER = 50, 15, 1.25
RULES = ("measured", "linear", "sqrt", "legw")
LATE = 4
"""Times the fewest updates, after which a carried rate counts as not there."""
PARTS = ("main", "batch", "critical", "transfer", "headline")
KEPT = (
    "batch_size", "learning_rate", "range", "schedule", "warmup_steps", "num_steps", "steps_range", "reached",
    "num_trials", "num_samples", "sensitivity", "rule", "rule_from", "critical_batch_size", "critical_range",
    "noise_scale", "noise_range", "seconds", "notes", "not_measured",
)  # fmt: skip
"""Of an answer, what a row holds."""

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A run, and the key of its row."""

    key: Row
    settings: Settings
    num_steps: int
    words: Row = field(default_factory=dict)


class Rows:
    """What was run, on disk line by line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.known = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def find(self, key: Row) -> Row | None:
        """The row of that key, if it is there."""
        return next((row for row in self.known if all(row.get(name) == value for name, value in key.items())), None)

    def get(self, make: Callable[[], Row], **key: Any) -> Row:
        """The row of that key: read, or made and written."""
        found = self.find(key)
        return self.keep(key, timed(make)) if found is None else found

    def keep(self, key: Row, found: Row) -> Row:
        """Write a row down."""
        row = {**key, **found}
        with self.path.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print({name: value for name, value in row.items() if name not in ("values", "notes")}, flush=True)
        self.known.append(row)
        return row


def timed(make: Callable[[], Row]) -> Row:
    """What it makes, and what that took."""
    began, cpu = time.monotonic(), time.process_time()
    row = make()
    wall, cpu = time.monotonic() - began, time.process_time() - cpu
    return {**row, "wall_seconds": round(wall, 2), "cpu_seconds": round(cpu, 2)}


def use_one_thread() -> None:
    """Small models: more threads only wait for each other."""
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"


class Pool:
    """Processes that make runs of one job several at a time; this one alone where there is one."""

    bench: "Bench"

    def __init__(self, bench: "Bench", num: int) -> None:
        self.own, self.processes = bench, None
        if num > 1:
            self.processes = ProcessPoolExecutor(num, get_context("spawn"), Pool.begin, bench.made_of)

    @staticmethod
    def begin(*made_of: Any) -> None:
        """What each of them does first."""
        use_one_thread()
        Pool.bench = Bench(*made_of)

    @staticmethod
    def work(planned: Planned) -> Row:
        """What one of them is asked for."""
        return timed(lambda: Pool.bench.run(planned.settings, planned.num_steps, **planned.words))

    def run(self, rows: Rows, planned: Sequence[Planned]) -> list[Row]:
        """The rows of these runs, in order; what is not there yet is made."""
        new = [each for each in planned if rows.find(each.key) is None]
        if self.processes is not None:
            for each, found in zip(new, self.processes.map(Pool.work, new), strict=True):
                rows.keep(each.key, found)
        make = lambda each: lambda: self.own.run(each.settings, each.num_steps, **each.words)  # noqa: E731
        return [rows.get(make(each), **each.key) for each in planned]


class Bench:
    """One job, its data and its target."""

    def __init__(self, word: str, out: Path, data: Path, device: str, num_processes: int = 1) -> None:
        case, self.word, self.out = CASES[JOBS[word]], word, out / word.replace(":", "-")
        self.rows, self.device, self.made_of = Rows(out / "rate.jsonl"), device, (word, out, data, device)
        self.out.mkdir(parents=True, exist_ok=True)
        self.name, self.options = case.job, {**case.options, **case.prepare(self.out, data)}
        self.job: Job = load_job(JobAddress(text=self.name, options=self.options))
        self.train, self.valid, self.own = self.job.train_data(), self.job.valid_data(), self.job.baseline  # type: ignore[misc]
        self.own = replace(self.own, num_epochs=EPOCHS.get(word, self.own.num_epochs))
        self.judge = "score" if self.job.score else "loss"
        self.goal = self.job.score.goal if self.job.score else "min"
        per_epoch = self.own.batch_size * self._updates_per_epoch()
        self.samples = self.own.num_epochs * per_epoch
        self.sizes = batch_sizes(self.own.batch_size, per_epoch)
        self.target = math.nan
        self.pool = Pool(self, num_processes)

    def _updates_per_epoch(self) -> int:
        if self.job.loader is not None:  # its data may count characters, of which a sample has many
            return len(self.job.loader(self.train, self.own))  # type: ignore[arg-type]
        return len(self.train) // self.own.batch_size

    def run(self, settings: Settings, num_steps: int, interrupted: Any = None, **more: Any) -> Row:
        """One run; its evaluations as (update, what is judged)."""
        request = Train(device=self.device, settings=asdict(settings), num_steps=num_steps, **more)
        going = Run(self.job, request, self.train, self.valid)
        if interrupted is not None:
            going.interrupted = lambda: interrupted(going.stopping.evaluations)
        done = going.go()
        return {
            "values": [(found.step, getattr(found, self.judge)) for found in done.evaluations],
            "num_steps": done.num_steps,
            "num_samples": done.num_steps * settings.batch_size,
            "stopped": done.stopped_because,
        }

    def is_there(self, value: float | None) -> bool:
        """Whether the value is as good as the target."""
        return value is not None and (value >= self.target if self.goal == "max" else value <= self.target)

    def updates(self, row: Row) -> int | None:
        """Updates to the first evaluation at the target."""
        return next((step for step, value in row["values"] if self.is_there(value)), None)

    def between_looks(self, row: Row) -> float | None:
        """The same, on a straight line over ln updates from the evaluation before: looks are far apart."""
        before: tuple[int, float] | None = None
        for step, value in row["values"]:
            if self.is_there(value) and (before is None or value == before[1]):
                return float(step)
            if self.is_there(value) and before is not None:
                share = (self.target - before[1]) / (value - before[1])
                return float(before[0] * (step / before[0]) ** share)
            before = (step, value) if value is not None else before
        return None

    def every(self, size: int) -> int:
        """Updates between evaluations: a fiftieth of the job's own samples."""
        return max(1, self.samples // size // LOOKS)

    def constant(self, rate: float, size: int, seed: int, **more: Any) -> Settings:
        """Settings at a constant rate."""
        chosen = {"batch_size": size, "learning_rate": rate, "schedule": "constant", "seed": seed, **more}
        return replace(self.own, **chosen)

    def set_target(self) -> list[Row]:
        """The worst of three runs by the job's own settings, as `rate` takes it; the runs."""
        num, words = self.samples // self.own.batch_size, {"evaluate_steps": self.every(self.own.batch_size)}
        planned = [
            Planned(key=self._key("own", seed=seed), settings=replace(self.own, seed=seed), num_steps=num, words=words)
            for seed in range(3)
        ]
        rows = self.pool.run(self.rows, planned)
        ends = [statistics.median_low([value for _, value in row["values"]][-9:]) for row in rows]
        self.target = min(ends) if self.goal == "max" else max(ends)
        return rows

    def _key(self, what: str, **more: Any) -> Row:
        return {"job": self.word, "what": what, **more}

    def sweep(self) -> list[Row]:
        """Every cell."""
        planned = [
            Planned(
                key=self._key("sweep", batch_size=size, learning_rate=self.own.learning_rate * times),
                settings=self.constant(self.own.learning_rate * times, size, 0),
                num_steps=self.samples // size,
                words={"evaluate_steps": self.every(size), "patience": PATIENCE},
            )
            for size in self.sizes
            for times in RATES
        ]
        return [{**row, "updates": self.updates(row)} for row in self.pool.run(self.rows, planned)]

    def search(self, what: str, budget: float, size: int, target: float, **words: Any) -> Row:
        """What `legroom rate` says."""

        def ask() -> Row:
            run = api.Run(out=self.out / what.split()[0], resume=True, seed=100, timeout=1200)
            words.setdefault("method", "auto")
            try:
                answer = api.rate(
                    self.name, options=self.options, device=self.device, batch_size=size,
                    target=f"{self.judge}={target!r}", budget=budget, run=run, **words,
                )  # fmt: skip
            except LegroomError as error:
                return {"error": str(error)}
            return {name: getattr(answer, name) for name in KEPT} | {
                "warmup_start": answer.settings.get("warmup_start", 0.0)
            }

        return self.rows.get(ask, job=self.word, what=what)

    def again(self, what: str, rate: float, size: int, seeds: Sequence[int], most: int, **more: Any) -> list[Row]:
        """Runs at that constant rate to the target, on each seed; ended where the loss no longer gains."""
        words = {"evaluate_steps": self.every(size), "target": (self.judge, self.target), "patience": PATIENCE}
        key = {"batch_size": size, "learning_rate": rate}
        planned = [
            Planned(
                key=self._key(f"again {what}", seed=seed, **key),
                settings=self.constant(rate, size, seed, **more),
                num_steps=most,
                words=words,
            )
            for seed in seeds
        ]
        return self.pool.run(self.rows, planned)

    def again_cooled(self, what: str, answer: Row) -> list[Row]:
        """Runs by the whole of an answer on five fresh seeds, each longer until one ends at the target."""
        rows, size = [], answer["batch_size"]
        for seed in FRESH:
            settings = self.constant(answer["learning_rate"], size, seed, schedule=answer["schedule"])
            make = lambda s=settings: self._longer(s, answer, size)  # noqa: E731
            key = {"what": f"again {what}", "batch_size": size, "seed": seed, "learning_rate": answer["learning_rate"]}
            rows.append(self.rows.get(make, job=self.word, **key))
        return rows

    def _longer(self, settings: Settings, answer: Row, size: int) -> Row:
        values: list[tuple[int, float | None]] = []
        num_steps, paid, most = answer["num_steps"], 0, 2 * self.samples // size
        while num_steps <= most:
            warmup = min(answer["warmup_steps"], num_steps // 2)
            words = {"evaluate_steps": min(num_steps, self.every(size)), "target": (self.judge, self.target)}
            done = self.run(replace(settings, warmup_steps=warmup), num_steps, **words)
            values, paid = [*values, *done["values"]], paid + done["num_samples"]
            if any(self.is_there(value) for _, value in done["values"]):
                break
            num_steps = round(num_steps * LONGER)
        return {"values": values, "num_samples": paid}

    def pace(self, size: int) -> float:
        """Seconds of the processor that an update takes, evaluations left out."""

        def measure() -> Row:
            request = Train(device=self.device, settings=asdict(self.constant(1e-6, size, 0)))
            trunk, clock = Trunk(self.job, request, self.train), self._clock
            trunk.advance(5)
            began, num = clock(), max(5, min(30, 8192 // size))
            trunk.advance(num)
            seconds = (clock() - began) / num
            trunk.close()
            return {"step_seconds": seconds}

        return float(self.rows.get(measure, job=self.word, what="pace", batch_size=size)["step_seconds"])

    def _clock(self) -> float:
        if self.device == "cpu":
            return time.process_time()
        torch.cuda.synchronize()
        return time.perf_counter()


def batch_sizes(own: int, num_samples: int) -> list[int]:
    """Six, each twice the one before, up to 16 times the job's own as far as an epoch has them.

    >>> batch_sizes(32, 1400), batch_sizes(512, 1700)
    ([16, 32, 64, 128, 256, 512], [32, 64, 128, 256, 512, 1024])
    """
    top = max(own * 2**power for power in range(int(math.log2(MOST_TIMES)) + 1) if own * 2**power <= num_samples)
    return [max(1, top // 2 ** (NUM_SIZES - 1 - place)) for place in range(NUM_SIZES)]


def middle(counts: Iterable[float | None], most: float) -> tuple[float, int]:
    """The middle count, and how many did not get there."""
    known = list(counts)
    return statistics.median([most if count is None else count for count in known]), known.count(None)


def best_cell(cells: Iterable[Row]) -> Row | None:
    """The cell with the fewest updates; of equal ones that at the lowest rate."""
    there = [cell for cell in cells if cell["updates"]]
    return min(there, key=lambda cell: (cell["updates"], cell["learning_rate"]), default=None)


def regret(counts: Iterable[float | None], fewest: float) -> float:
    """Mean log2 of updates over the fewest at that batch size; not there within four times as many counts 2.

    >>> regret([100.0, 200.0, None], 100.0)
    1.0
    """
    times = [2.0 if count is None else min(2.0, max(0.0, math.log2(count / fewest))) for count in counts]
    return statistics.fmean(times)


def say(bench: Bench, name: str, answer: Row, rows: list[Row], base: float | None, paid: int) -> float:
    """A line of the table; the middle of the updates."""
    most = 2 * bench.samples // answer.get("batch_size", bench.own.batch_size)
    counts = [bench.updates(row) for row in rows]
    updates, num_missed = middle(counts, most)
    ratio = f"{updates / base:.2f} of the sweep's" if base else ""
    cost = answer["num_samples"] / paid
    print(
        f"  {name:16s} rate {answer['learning_rate']:8.4g} updates {updates:6.0f} "
        f"({counts}, {num_missed} missed) {ratio}; "
        f"samples {answer['num_samples']:,} = {cost:.3f} of the sweep"
    )
    return updates


def judge_main(bench: Bench, cells: list[Row], budget: float) -> None:
    """Every search at the job's own batch, run again on five fresh seeds."""
    size = bench.own.batch_size
    near = [cell for cell in cells if cell["batch_size"] in [times * size for times in HELD_AGAINST]]
    paid = sum(cell["num_samples"] for cell in near)
    found = {"auto": bench.search("auto", budget, size, bench.target)}
    if "error" not in found["auto"]:
        equal = max(10.0, found["auto"]["seconds"])
        found["greedy"] = bench.search("greedy", equal, size, bench.target, method="greedy")
    for name, peer in rate_peers.PEERS.items():
        most = found["auto"].get("num_samples", paid // 10)
        found[name] = bench.rows.get(lambda p=peer, m=most: p(bench, m), job=bench.word, what=name)  # type: ignore[misc]
    best = best_cell(cell for cell in cells if cell["batch_size"] == size)
    if best is not None:
        found = {"sweep": {"learning_rate": best["learning_rate"], "num_samples": paid}, **found}
    base = None
    for name, answer in found.items():
        if "error" in answer:
            print(f"  {name:16s} left out: {answer['error']}")
            continue
        if name == "auto":
            rows = bench.again_cooled(name, answer)
        else:
            rows = bench.again(name, answer["learning_rate"], size, FRESH, 2 * bench.samples // size)
        updates = say(bench, name, answer, rows, base, paid)
        base = updates if name == "sweep" else base


def judge_batch(bench: Bench, cells: list[Row], budget: float) -> None:
    """At the batch that should be soonest by the law, against the sweep's cell that was."""
    auto = bench.search("auto", budget, bench.own.batch_size, bench.target)
    there = [cell for cell in cells if cell["updates"]]
    if "error" in auto or not there:
        return
    best = min(there, key=lambda cell: cell["updates"] * bench.pace(cell["batch_size"]))
    critical, size = auto["critical_batch_size"] or auto["noise_scale"], bench.own.batch_size
    if critical is not None:
        law = StepsLaw(least_steps=1.0, critical_batch_size=critical)
        size = min(bench.sizes, key=lambda each: law.steps(each) * bench.pace(each))
    answer = bench.search(f"auto {size}", budget, size, bench.target)
    if "error" in answer:
        print(f"  across batches   left out: {answer['error']}")
        return
    swept = bench.again("sweep", best["learning_rate"], best["batch_size"], FRESH, _most(bench, best["batch_size"]))
    rows = {"sweep": (best["batch_size"], swept), "auto": (size, bench.again_cooled(f"auto {size}", answer))}
    seconds = {}
    for name, (its, runs) in rows.items():
        updates, num_missed = middle([bench.updates(row) for row in runs], _most(bench, its))
        seconds[name] = updates * bench.pace(its)
        print(f"  across batches   {name:6s} batch {its}: {updates:.0f} updates, {seconds[name]:.2f} s of the "
              f"processor ({num_missed} of {len(runs)} missed)")  # fmt: skip
    print(f"  across batches   {seconds['auto'] / seconds['sweep']:.2f} of the sweep's seconds")


def _most(bench: Bench, size: int) -> int:
    return 2 * bench.samples // size


def fewest_updates(bench: Bench, cells: list[Row]) -> dict[int, float]:
    """By batch size, the middle of three fresh seeds at the sweep's best rate there, read between looks."""
    found = {}
    for size in bench.sizes:
        best = best_cell(cell for cell in cells if cell["batch_size"] == size)
        if best is not None:
            rows = bench.again("sweep", best["learning_rate"], size, FRESH[:NUM_SEEDS], _most(bench, size))
            updates, num_missed = middle([bench.between_looks(row) for row in rows], _most(bench, size))
            if num_missed <= NUM_SEEDS // 2:
                found[size] = updates
    return found


def judge_critical(bench: Bench, cells: list[Row], budget: float) -> None:
    """B_crit as told, against the law through measured updates."""
    fewest, auto = fewest_updates(bench, cells), bench.search("auto", budget, bench.own.batch_size, bench.target)
    print(f"  fewest updates   { {size: round(updates) for size, updates in fewest.items()} }")
    if len(fewest) < 2 or "error" in auto:
        return
    law, told = fit_steps(list(fewest), list(fewest.values())), auto["critical_batch_size"]
    apart = "" if told is None else f", {max(told / law.critical_batch_size, law.critical_batch_size / told):.2f} apart"
    print(f"  B_crit           fitted {law.critical_batch_size:.0f} {law.critical_range}; told {told} "
          f"{auto['critical_range']}{apart}; noise scale {auto['noise_scale']} {auto['noise_range']}")  # fmt: skip


def judge_transfer(bench: Bench, cells: list[Row], budget: float) -> None:
    """Regret of every rule at every larger batch, from the best rate at the job's own, or the least, size."""
    fewest, own = fewest_updates(bench, cells), bench.own.batch_size
    base = own if sum(size > own for size in fewest) >= 3 else min(fewest, default=own)
    best = best_cell(cell for cell in cells if cell["batch_size"] == base)
    if best is None:
        return
    known = {"method": "transfer", "from_batch": base, "from_rate": best["learning_rate"]}
    regrets: dict[str, list[float]] = {}
    for size in (size for size in fewest if size > base):
        for rule in RULES:
            what = f"transfer {rule} {size}"
            answer = bench.search(what, budget, size, bench.target, rule=rule, **known)
            if "error" in answer:
                print(f"  transfer         {rule} to {size} left out: {answer['error']}")
                continue
            most = math.ceil(LATE * fewest[size])
            warmup = {"warmup_steps": answer["warmup_steps"], "warmup_start": answer["warmup_start"]}
            rows = bench.again(what, answer["learning_rate"], size, FRESH[:NUM_SEEDS], most, **warmup)
            counts = [bench.between_looks(row) for row in rows]
            regrets.setdefault(rule, []).append(regret(counts, fewest[size]))
            shown = [count and round(count) for count in counts]
            print(f"  transfer         {rule:8s} {base} to {size}: rate {answer['learning_rate']:.4g}, warm-up "
                  f"{answer['warmup_steps']}, updates {shown} of {fewest[size]:.0f}")  # fmt: skip
    means = {rule: round(statistics.fmean(values), 3) for rule, values in regrets.items()}
    print(f"  mean regret      {means}, from {base} over {len(next(iter(regrets.values()), []))} batch sizes")


def judge_headline(bench: Bench, cells: list[Row], budget: float) -> None:
    """Seconds to the sweep's best score: of the point that has it, and of what `auto` recommends for it."""
    best_of = max if bench.goal == "max" else min
    scored = [(value, step, cell) for cell in cells for step, value in cell["values"] if value is not None]
    value = best_of(each[0] for each in scored)
    step, cell = min(((each[1], each[2]) for each in scored if each[0] == value), key=lambda pair: pair[0])
    slow = step * bench.pace(cell["batch_size"])
    print(f"  headline         the sweep's best {bench.judge} {value:.4f}: batch {cell['batch_size']}, rate "
          f"{cell['learning_rate']:.4g}, after {step} updates, {slow:.1f} s of the processor")  # fmt: skip
    answer, usual = bench.search("headline", budget, bench.own.batch_size, value), bench.target
    if "error" in answer or not answer["reached"]:
        print(f"  headline         {answer.get('error') or answer['notes'][-1:]}")
        return
    bench.target = value
    rows = bench.again_cooled("headline", answer)
    size = answer["batch_size"]
    updates, num_missed = middle([bench.updates(row) for row in rows], _most(bench, size))
    bench.target, quick = usual, updates * bench.pace(size)
    print(f"  headline         recommended: batch {size}, {updates:.0f} updates, {quick:.1f} s ({num_missed} missed), "
          f"{quick / slow:.2f} of the sweep's")  # fmt: skip


def judge(bench: Bench, budget: float, parts: Sequence[str]) -> None:
    """All that is asked of one job, and its lines of the table."""
    own = bench.set_target()
    cells = bench.sweep()
    paid = sum(cell["num_samples"] for cell in cells)
    print(f"\n{bench.word}: target {bench.judge} {bench.target:.4f} ({bench.goal}); {bench.samples:,} samples in "
          f"{bench.own.num_epochs} epochs of its own; sweep of {len(cells)} cells, {paid:,} samples")  # fmt: skip
    for size in bench.sizes:
        shown = [f"{cell['learning_rate']:.3g}: {cell['updates']}" for cell in cells if cell["batch_size"] == size]
        print(f"  B {size:5d}  {', '.join(shown)}")
    print(f"  own settings     updates to the target {[bench.updates(row) for row in own]}")
    known = {"main": judge_main, "batch": judge_batch, "critical": judge_critical, "transfer": judge_transfer,
             "headline": judge_headline}  # fmt: skip
    for part in parts:
        known[part](bench, cells, budget)


def main() -> None:
    """Every job in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--jobs", nargs="+", default=list(JOBS), choices=JOBS, metavar="JOB")
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS, metavar="PART")
    parser.add_argument("--budget", type=float, default=300.0, help="seconds of each search")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("LEGROOM_DATA", "data")))
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--processes", type=int, default=1, help="runs at a time, beside searches")
    words = parser.parse_args()
    use_one_thread()
    os.environ["LEGROOM_DATA"] = str(words.data)
    words.out.mkdir(parents=True, exist_ok=True)
    for word in words.jobs:
        judge(Bench(word, words.out, words.data, words.device, words.processes), words.budget, words.parts)


if __name__ == "__main__":
    main()
