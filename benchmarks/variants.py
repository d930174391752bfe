"""Whether the gain that `legroom variants` tells is the gain that training has.

    python benchmarks/variants.py OUT [MODEL ...]

For each model of benchmarks/small_zoo.py, at batches of 64 and without the compiler: `legroom variants`; then runs of
`legroom train` by the job's own settings and by those that it names, in turn, for as many updates as take TRAIN_SECONDS
by its own timing. What the gain is held against, loading included: the ratio of their throughputs, and that of the core
seconds of an update, which other programs on the machine hardly change. Rows go to OUT/rows.jsonl as they come; answers
in OUT are not asked for again.
"""

import json
import math
import statistics
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from legroom import api
from legroom.logbook import read_records

ZOO = f"{Path(__file__).parent / 'small_zoo.py'}:job"
MODELS = ("resnet", "separable", "cnn", "mlp", "lstm", "encoder")
BATCH_SIZE, NUM_PAIRS, TRAIN_SECONDS = 64, 3, 4.0


def measure(model: str, out: Path) -> dict[str, Any]:
    """What is told, and what training has."""
    words: dict[str, Any] = {"options": {"model": model, "threads": "1"}, "device": "cpu"}
    asked = api.Run(out=out / model, resume=True)
    told = api.variants(ZOO, batch_size=BATCH_SIZE, only=["channels_last", "bf16", "fused"], run=asked, **words)
    num_steps = max(10, math.ceil(TRAIN_SECONDS / (told.own_step_seconds or 0.1)))
    wall, cores = [], []
    for _ in range(NUM_PAIRS if told.chosen else 0):
        own, fast = (trained(settings, num_steps, out / model, words) for settings in (told.baseline, told.settings))
        wall.append(own[0] / fast[0])
        cores.append(own[1] / fast[1])
    verdicts = {point["name"]: (point["verdict"], point["ratio"], point["because"]) for point in told.points}
    return {"model": model, "answer": asdict(told)["chosen"], "verdicts": verdicts, "speedup": told.speedup,
            "range": told.speedup_range, "seconds": told.seconds, "own_step": told.own_step_seconds,
            "wall": wall, "cores": cores}  # fmt: skip


def trained(settings: dict[str, Any], num_steps: int, out: Path, words: dict[str, Any]) -> tuple[float, float]:
    """Seconds of an update of such a run, on the clock and on a core."""
    found = api.train(ZOO, settings=settings, num_steps=num_steps, run=api.Run(out=out / "train"), **words)
    busy = read_records(out / "train", "train").entries[-1].result.utilisation
    seconds = BATCH_SIZE / found.samples_per_second
    return seconds, seconds * busy


def show(row: dict[str, Any]) -> str:
    """A row of the table."""
    low, high = row["range"]
    wall, cores = (
        f"{statistics.median(row[name]):.2f} ({', '.join(f'{ratio:.2f}' for ratio in row[name])})" if row[name] else ""
        for name in ("wall", "cores")
    )
    own = f"{1e3 * row['own_step']:.3g} ms" if row["own_step"] else ""
    told = f"{row['speedup']:.2f} ({low:.2f} to {high:.2f})" if row["answer"] else "none pays"
    return (
        f"| {row['model']} | {own} | {' + '.join(row['answer'])} | {told} | {wall} | {cores} | {row['seconds']:.0f} s |"
    )


def main(out: Path, models: list[str]) -> None:
    """A row a model."""
    out.mkdir(parents=True, exist_ok=True)
    print("| model | own step | variants | told | by the clock | by core seconds | asking took |")
    print("|---|---|---|---|---|---|---|")
    for model in models or MODELS:
        row = measure(model, out)
        with (out / "rows.jsonl").open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(show(row), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
