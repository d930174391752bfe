"""Updates to a target of a run that finds out when to cool down, against the best fixed schedule known in hindsight.

    python benchmarks/until_target.py OUT [JOB ...]

For each job and seed:
  own         the job's own settings, evaluated every 8 updates, until the target
  hindsight   `linear`, `cosine` and `stable:cooldown=0.1` of fixed lengths at the same rate, a factor 1.2 apart,
              evaluated every 2 % of their length: the fewest updates of all after which an evaluation met the target
  until       the run of --until-target; its own updates, and with those of cooldowns that missed

All go through the same loop in this process. Rows go to OUT/rows.jsonl as they come; what is there is not run again.
Lengths begin at half of `own`. Targets, rates and reductions are in JOBS and printed with the table.
"""

import json
import math
import statistics
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Subset

from legroom.job import Job
from legroom.training.cooldowns import COOLING
from legroom.training.loop import Run
from legroom.training.records import Train
from legroom.workloads import digits, mnist_lstm

SCHEDULES = ("linear", "cosine", COOLING)
STEP = 1.2
SEEDS = (0, 1, 2)


def reduced(job: Job, num_train: int, num_valid: int) -> Job:
    """The job with the first samples alone."""
    train, valid = job.train_data(), job.valid_data()  # type: ignore[misc]
    return replace(
        job,
        train_data=lambda: Subset(train, range(num_train)),
        valid_data=lambda: Subset(valid, range(num_valid)),
    )


JOBS: dict[str, tuple[Any, float, float, str]] = {
    "digits-lstm": (lambda: digits.job(), 0.95, 0.1, "as it is"),
    "digits-cnn": (lambda: digits.job(model="cnn"), 0.97, 0.05, "as it is"),
    "mnist-lstm": (lambda: reduced(mnist_lstm.job(), 6_000, 1_000), 0.93, 0.1, "6,000 of 60,000 and 1,000 of 10,000"),
}
"""Job, target score, rate, and how it was reduced."""


def train(job: Job, target: float, *, until: bool = False, num_steps: int, every: int = 0, **settings: Any) -> Any:
    """A run of that length at most, in this process."""
    chosen = replace(job.baseline, **settings)
    every = every or max(4, math.ceil(0.02 * num_steps))
    request = Train(
        device="cpu",
        settings=asdict(chosen),
        num_steps=num_steps,
        target=("score", target),
        until_target=until,
        evaluate_steps=None if until else every,
    )
    return Run(job, request, job.train_data(), job.valid_data()).go()  # type: ignore[misc]


def rows_of(name: str, seed: int, known: list[dict[str, Any]]) -> Any:
    """Every run of a job and seed, those that are known left out."""
    make, target, rate, _ = JOBS[name]
    job = make()
    head = {"job": name, "seed": seed, "target": target, "rate": rate}

    def have(**words: Any) -> dict[str, Any] | None:
        return next((row for row in known if all(row.get(key) == value for key, value in (head | words).items())), None)

    def row(what: str, result: Any, **more: Any) -> dict[str, Any]:
        missed = sum(each.num_steps for each in result.cooldowns if not each.reached)
        reached = result.stopped_because == "target"
        counts = {"num_steps": result.num_steps, "missed_steps": missed, "seconds": round(result.seconds, 2)}
        return {**head, "what": what, **more, "reached": reached, **counts, "cooldowns": len(result.cooldowns)}

    own = have(what="own")
    if own is None:
        per_epoch = len(job.train_data()) // job.baseline.batch_size
        own = row("own", train(job, target, num_steps=4 * job.baseline.num_epochs * per_epoch, every=8, seed=seed))
        yield own
    most = 2 * own["num_steps"]
    if have(what="until") is None:
        result = train(job, target, until=True, num_steps=2 * most, seed=seed, schedule=COOLING, learning_rate=rate)
        yield row("until", result)
    length = max(24, own["num_steps"] // 2)
    while length < most:
        for schedule in SCHEDULES:
            if have(what="fixed", schedule=schedule, length=length) is None:
                result = train(job, target, num_steps=length, seed=seed, schedule=schedule, learning_rate=rate)
                yield row("fixed", result, schedule=schedule, length=length)
        reached = [each for each in known if each["what"] == "fixed" and each["reached"]]
        mine = [each for each in reached if (each["job"], each["seed"]) == (name, seed)]
        if mine and length > 1.3 * min(each["num_steps"] for each in mine):
            return  # a longer schedule meets it no sooner
        length = math.ceil(STEP * length)


def table(rows: list[dict[str, Any]]) -> None:
    """A row a job and seed, and the medians of the ratios."""
    print("| job | seed | own | hindsight | until | missed | until / hindsight | with missed | with missed / own |")
    print("|---|---|---|---|---|---|---|---|---|")
    ratios = []
    for name, seed in sorted({(row["job"], row["seed"]) for row in rows}):
        mine = [row for row in rows if (row["job"], row["seed"]) == (name, seed)]
        own, until = (next((row for row in mine if row["what"] == what), None) for what in ("own", "until"))
        fixed = [row["num_steps"] for row in mine if row["what"] == "fixed" and row["reached"]]
        if not (own and until and fixed):
            continue
        best, whole = min(fixed), until["num_steps"] + until["missed_steps"]
        ratios.append((name, until["num_steps"] / best, whole / best, whole / own["num_steps"]))
        shown = " | ".join(f"{ratio:.2f}" for ratio in ratios[-1][1:])
        marks = ["" if row["reached"] else " (not reached)" for row in (own, until)]
        counts = f"{own['num_steps']}{marks[0]} | {best} | {until['num_steps']}{marks[1]} | {until['missed_steps']}"
        print(f"| {name} | {seed} | {counts} | {shown} |")
    for name in [*sorted({each[0] for each in ratios}), "all"]:
        chosen = [each[1:] for each in ratios if name in (each[0], "all")]
        medians = " | ".join(f"{statistics.median(column):.2f}" for column in zip(*chosen, strict=True))
        print(f"| {name}, median | | | | | | {medians} |")


def main(out: Path, names: list[str]) -> None:
    """Run what is missing, and print."""
    torch.set_num_threads(1)  # small models: more threads only wait for each other
    out.mkdir(parents=True, exist_ok=True)
    path = out / "rows.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []
    for seed in SEEDS:
        for name in names or list(JOBS):
            for row in rows_of(name, seed, rows):
                rows.append(row)
                with path.open("a") as file:
                    file.write(json.dumps(row) + "\n")
    for name, (_, target, rate, cut) in JOBS.items():
        print(f"{name}: score {target}, rate {rate}; data {cut}")
    table(rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
