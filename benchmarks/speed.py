"""How well four batch sizes foretell the time of a step at all others.

    python benchmarks/speed.py OUT [--device cuda|cpu] [--models a,b] [--seconds 6] [--threads 1] [--clock wall|core]

Each model is timed at 2^k and 3*2^k from one sample to the largest that fits memory and time, in rounds over all sizes:
the truth. legroom picks four of them, fits its law through these alone, and is scored at the others; the knee by the
law is compared with the knee by the truth. OUT holds a JSON line a model; one that is there is not run again.
On a GPU the host's launches and the device's own seconds are timed apart, and the law knows both; `plain` is the law by
the steps alone, `launches` what a step takes where it waits for the host, as a share of its launches timed apart.
On cores that other programs use, `--clock core` times one thread by the seconds it ran, not by those that passed.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from legroom.child.built_job import BuiltJob
from legroom.child.serve import serve
from legroom.engines.base import Child
from legroom.engines.local import LocalEngine
from legroom.environments import EXPANDABLE, UNCHANGED, Environment
from legroom.errors import LegroomError
from legroom.job_address import JobAddress, address_of
from legroom.laws.compute import knee_of
from legroom.logbook import RunStarted, open_logbook
from legroom.questions.speed.batch_sizes import grid
from legroom.questions.speed.child.steps import time_steps
from legroom.questions.speed.evidence import first_looks
from legroom.questions.speed.records import SpeedQuestion, StepTime, TimeSteps
from legroom.questions.speed.search import find_range
from legroom.questions.speed.size_range import read_range
from legroom.questions.speed.step_law import law_of, waits_for_host
from legroom.requests import Request, to_json
from legroom.session import Session

ON_GPU = (
    "resnet50", "alexnet", "vit_b_16", "efficientnet_b0", "convnext_tiny", "word_lstm", "bigru", "ctc", "masked",
)  # fmt: skip
ON_CPU = ("mlp", "cnn", "resnet", "separable", "autoencoder", "sound", "lstm", "gru", "encoder", "bag")
LARGEST, SHARE = {"cuda": 2048, "cpu": 8192}, 0.9
"""On a GPU, larger batches of images take longer to make than to time, and nothing bends there."""
MIN_ROUNDS = {"cuda": 3, "cpu": 9}
"""A GPU repeats itself within 1 %; cores that others share do not."""


class Early:
    """An engine whose first worker was started before it was needed."""

    def __init__(self, address: JobAddress, environment: Environment) -> None:
        self.worker: Child | None = LocalEngine().start(address, environment, alone=True)

    def start(self, address: JobAddress, environment: Environment, *, alone: bool = False) -> Child:
        """That worker, then new ones."""
        worker, self.worker = self.worker, None
        return worker or LocalEngine().start(address, environment, alone=alone)


class Here:
    """An engine that runs steps in this process and times them by its own core seconds."""

    def start(self, address: JobAddress, environment: Environment, *, alone: bool = False) -> Child:
        """A worker of the kind."""
        self.bench = BuiltJob(address)
        return self

    def ask(self, request: Request, listen: Any = None) -> Any:
        """What the child would answer."""
        if isinstance(request, TimeSteps):
            return time_steps(request, self.bench, clock=time.process_time)
        return serve(request, self.bench)

    def close(self) -> None:
        """Nothing to end."""


def main() -> None:
    """Measure what is missing and print the table."""
    words = read_words()
    done = {row["model"]: row for row in read_rows(words.out) if is_same(row, words)}
    models = words.models.split(",") if words.models else (ON_GPU if words.device == "cuda" else ON_CPU)
    for row in done.values():
        print(describe(row), flush=True)
    wanted = [model for model in models if model not in done]
    addresses = [address_for(model, words) for model in wanted]
    environment = EXPANDABLE if words.device == "cuda" else UNCHANGED
    engines: list[Any] = [Early(addresses[0], environment)] if addresses and words.device == "cuda" else []
    for place, (model, address) in enumerate(zip(wanted, addresses, strict=True)):
        if words.device == "cuda" and place + 1 < len(addresses):
            engines.append(Early(addresses[place + 1], environment))  # it imports and builds while this one is timed
        engine = engines[place] if engines else (Here() if words.clock == "core" else LocalEngine())
        row = measure(model, address, engine, words)
        with words.out.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(describe(row), flush=True)
    print_totals([row for row in read_rows(words.out) if is_same(row, words) and "points" in row])


def is_same(row: Mapping[str, Any], words: argparse.Namespace) -> bool:
    """Whether the row was measured on the device and by the clock asked for."""
    return (row["device"], row["clock"]) == (words.device, words.clock)


def read_words() -> argparse.Namespace:
    """The words of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--models", default="")
    parser.add_argument("--seconds", type=float, default=6.0, help="for the rounds of one model")
    parser.add_argument("--clock", default="wall", choices=("wall", "core"))
    parser.add_argument("--threads", type=int, default=1, help="of torch on a CPU; 0: its own choice")
    return parser.parse_args()


def address_for(model: str, words: argparse.Namespace) -> JobAddress:
    """The job of that model: of zoo.py on a GPU, of small_zoo.py on a CPU."""
    file = Path(__file__).with_name("zoo.py" if words.device == "cuda" else "small_zoo.py")
    options = {"model": model} if words.device == "cuda" else {"model": model, "threads": str(words.threads)}
    return address_of(f"{file}:job", options)


def measure(model: str, address: JobAddress, engine: Any, words: argparse.Namespace) -> dict[str, Any]:
    """The truth of one model, and how the law does against it."""
    started = time.monotonic()
    row: dict[str, Any] = {"model": model, "device": words.device, "clock": words.clock}
    try:
        points, because = time_grid(address, engine, words)
    except LegroomError as error:
        return row | {"error": str(error)}
    circumstances = {"largest_because": because, "run_seconds": time.monotonic() - started}
    return row | circumstances | {"points": [to_json(point) for point in points]}


def time_grid(address: JobAddress, engine: Any, words: argparse.Namespace) -> tuple[list[StepTime], str]:
    """Seconds of a step at every size of the grid that can be run."""
    with tempfile.TemporaryDirectory() as folder:
        head = RunStarted(
            run="", job=address.text, options=address.options, digest="", machine="", command="benchmark",
            legroom_version="", started_at="",
        )  # fmt: skip
        with Session(address, engine, open_logbook(Path(folder), head, resume=False)) as session:
            description = session.describe(0)
            limit = min(LARGEST[words.device], description.num_samples or LARGEST[words.device])
            question = SpeedQuestion(device=words.device, precision="fp32", ceiling=limit)
            ran = find_range(session, question)  # so the sizes are those a user would see
            sizes = tuple(grid(ran[0], ran[-1]))
            request = question.request(sizes, seconds=words.seconds, min_rounds=MIN_ROUNDS[words.device])
            result = session.ask(request)
            because = read_range(first_looks(session.records, question), question).because
    return [point for point in result.points if point.outcome == "measured"], because


def points_of(row: Mapping[str, Any]) -> list[StepTime]:
    """The timings of a row; earlier rows know one clock only."""
    return [StepTime(**{key: value for key, value in p.items() if key != "load"}) for p in row["points"]]


def score_plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """The same of the law by the steps alone."""
    return score_points([replace(point, device_seconds=0.0, host_seconds=0.0) for point in points_of(row)])


def score(row: Mapping[str, Any]) -> dict[str, Any]:
    """Errors of the law at sizes it has not seen, and how many grid steps its knee is from the true one."""
    return score_points(points_of(row))


def score_points(points: list[StepTime]) -> dict[str, Any]:
    """The same of timings."""
    law, errors = law_of(points)
    truth = {point.batch_size: point.samples_per_second for point in points}
    sizes = sorted(truth)
    knee, true_knee = (knee_of(rate, sizes, SHARE) for rate in (law.samples_per_second, truth.__getitem__))
    return {
        "law_sizes": law.sizes,
        "host": law.host_seconds,
        "mean": statistics.fmean(map(abs, errors)),
        "worst": max(map(abs, errors)),
        "knee": knee,
        "true_knee": true_knee,
        "steps_apart": abs(sizes.index(knee) - sizes.index(true_knee)),
        "noise": statistics.median(point.spread for point in points),
    }


def describe(row: Mapping[str, Any]) -> str:
    """A row for people."""
    if "error" in row:
        return f"{row['model']:16} {row['error']}"
    found = score(row)
    sizes = ", ".join(map(str, found["law_sizes"]))
    return (
        f"{row['model']:16} {len(row['points']):2} sizes to {row['points'][-1]['batch_size']:5}  from {sizes:22} "
        f"mean {found['mean']:6.1%}  worst {found['worst']:6.1%}  knee {found['knee']:5} (true {found['true_knee']:5})"
        f"  noise {found['noise']:5.1%}  {row['run_seconds']:5.1f} s{describe_clocks(row, found)}"
    )


def describe_clocks(row: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """What is known of the host's pace, and whether its launches timed apart agree with steps that wait for them."""
    points, plain = points_of(row), score_plain(row)
    num_known = sum(point.device_seconds > 0 for point in points)
    if not num_known:
        return ""
    shares = [p.median_seconds / p.host_seconds for p in points if p.host_seconds and waits_for_host(p, p.host_seconds)]
    launches = f", launches {statistics.median(shares):.2f}" if shares else ""
    return (
        f"  host {found['host'] * 1e3:.1f} ms, device known at {num_known} of {len(points)}{launches}"
        f"  plain: mean {plain['mean']:6.1%}  worst {plain['worst']:6.1%}  knee {plain['knee']:5}"
    )


def print_totals(rows: Sequence[Mapping[str, Any]]) -> None:
    """Over all models."""
    if not rows:
        return
    print_total("legroom", [score(row) for row in rows])
    if any(point.device_seconds for row in rows for point in points_of(row)):
        print_total("plain", [score_plain(row) for row in rows])


def print_total(name: str, found: Sequence[Mapping[str, Any]]) -> None:
    """One line for one law."""
    mean, worst = statistics.fmean(item["mean"] for item in found), max(item["worst"] for item in found)
    close = sum(item["steps_apart"] <= 1 for item in found)
    noise = statistics.median(item["noise"] for item in found)
    print(
        f"{name}, {len(found)} models: mean error {mean:.1%}, worst {worst:.1%}; knee within one grid step of the "
        f"measured one in {close} of {len(found)}; median noise of the truth {noise:.1%}"
    )


def read_rows(path: Path) -> list[dict[str, Any]]:
    """What earlier runs wrote."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


if __name__ == "__main__":
    main()
