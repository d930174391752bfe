"""Loader settings found by legroom against an exhaustive sweep, rules of thumb and loadtune, on twelve pipelines.

    python benchmarks/loading.py OUT                     all twelve on the CPU
    python benchmarks/loading.py OUT --device cuda --pipelines jpeg zlib sleep
    taskset -c 0-11 python benchmarks/loading.py OUT --device cuda --no-loadtune

Cores are those this process may run on, by affinity and cgroup; `cpu_count` is os.cpu_count() all the same.

For each pipeline: `legroom loading` as a user calls it; a sweep over workers and batches ahead, one timed run a
setting; then all that anybody chose, and the sweep's best three, raced against each other in turns. A choice is scored
by its median rate over the best median of that race; a rule of thumb far behind in the sweep is scored by the sweep.
`sweep` is the sweep's own best, raced again as the others are: what trying every setting once would have chosen.
One child answers all of it, so that start-up is paid once. Rows are appended to OUT/loading.jsonl.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from legroom import api
from legroom.engines.local import LocalEngine
from legroom.environments import UNCHANGED, Environment
from legroom.errors import LegroomError
from legroom.host.limits import read_limits
from legroom.job_address import JobAddress, address_of
from legroom.questions.loading.records import ComparedLoaders, CompareLoaders, LoaderSettings
from legroom.requests import to_json

PIPELINES = (
    "jpeg", "zlib", "sleep", "python", "tiny", "huge", "tail", "blas", "mapped", "iterable", "uneven", "memory",
)  # fmt: skip
BATCH_SIZES = {"tiny": 256, "huge": 8, "memory": 64}
FEW_CORES = 8
SWEEP_TURNS = (5, 0.4)
"""Two seconds for each setting, in five turns: shorter runs of the same setting differ by more than 5 %."""
LAST_TURNS = (9, 0.25)
"""Of the last race: of fewer turns the best of several medians would lie 5 % and more above what it keeps up."""
FAR_BEHIND = 0.7
"""Share of the best in the sweep below which a rule of thumb is not raced."""


def workers_to_sweep(num_cores: int) -> list[int]:
    """Every count up to the cores, and some above."""
    if num_cores < FEW_CORES:
        return [*range(num_cores + 3), 3 * num_cores, 4 * num_cores]
    return [*range(num_cores + 1), num_cores * 3 // 2, 2 * num_cores]


def sweep_lanes(num_cores: int) -> list[LoaderSettings]:
    """Workers times batches ahead; on many cores batches ahead stay torch's own 2, or the sweep would take minutes."""
    ahead = (2, 4) if num_cores < FEW_CORES else (2,)
    lanes = [
        LoaderSettings(num_workers=num, prefetch_factor=each) for num in workers_to_sweep(num_cores) for each in ahead
    ]
    return [lane for lane in lanes if lane.num_workers or lane.prefetch_factor == 2]


class Racer:
    """One child that answers races about one pipeline; ready, and idle until asked, once it is made."""

    def __init__(self, pipeline: str, device: str) -> None:
        self.pipeline, self.device = pipeline, device
        self.batch_size = BATCH_SIZES.get(pipeline, 32)
        self.asked: list[list[Any]] = []
        self.worker = LocalEngine(silence_seconds=120).start(address(pipeline), UNCHANGED)
        self([LoaderSettings(num_workers=0)], 1, 0.05)  # the child imports torch and builds the job

    def __call__(
        self, lanes: list[LoaderSettings], num_rounds: int, window_seconds: float
    ) -> dict[LoaderSettings, list[float]]:
        """Samples per second of each lane, round by round."""
        request = CompareLoaders(
            device=self.device,
            batch_size=self.batch_size,
            what="together",
            lanes=tuple(lanes),
            num_rounds=num_rounds,
            window_seconds=window_seconds,
        )
        started = time.perf_counter()
        result = self.worker.ask(request)
        assert isinstance(result, ComparedLoaders)
        entry = {"request": to_json(request), "result": to_json(result), "seconds": time.perf_counter() - started}
        self.asked.append(_asked(entry))
        say_asked(self.pipeline, self.asked[-1:])
        for rate in result.lanes:
            if rate.outcome != "measured":
                print(f"  {rate.lane.num_workers} workers scored 0: {rate.reason}", file=sys.stderr, flush=True)
        return {
            rate.lane: [rate.samples_per_batch / one for one in rate.batch_seconds] or [0.0] for rate in result.lanes
        }


class Lent:
    """The racer's child, lent to legroom: it answers as any other, and stays when legroom is done."""

    def __init__(self, race: Racer) -> None:
        self.ask = race.worker.ask

    def start(self, address: JobAddress, environment: Environment, *, alone: bool = False) -> "Lent":
        """The child there is."""
        return self

    def close(self) -> None:
        """Its owner ends it."""


def address(pipeline: str) -> Any:
    """The job's address."""
    return address_of(f"{Path(__file__).with_name('pipelines.py')}:job", {"pipeline": pipeline})


def run_legroom(race: Racer) -> dict[str, Any]:
    """What `legroom loading` chooses, and what it took."""
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        run = api.Run(out=Path(folder), engine=Lent(race))
        answer = api.loading(address(race.pipeline), device=race.device, run=run)
        race([LoaderSettings(num_workers=0)], 1, 0.0)  # ends the workers that legroom left open
        seconds = time.perf_counter() - started
        lines = [json.loads(line) for line in Path(folder, "logbook.jsonl").read_text().splitlines()]
    entries = [line["entry"] for line in lines if "entry" in line]
    starting = sum(_start_seconds(entry) for entry in entries)
    return {
        "asked": [_asked(entry) for entry in entries],
        "lane": LoaderSettings(num_workers=answer.num_workers, prefetch_factor=answer.prefetch_factor),
        "seconds": seconds - starting,
        "start_seconds": starting,
        "bound_by": answer.bound_by,
        "shares": answer.shares,
    }


def _start_seconds(entry: dict[str, Any]) -> float:
    """Of a request: torch's import, the job, the model and its optimizer, which a sweep needs too."""
    if entry["request"]["kind"] == "describe":
        return float(entry["seconds"])
    return float(entry["result"]["lanes"][0]["start_seconds"]) if entry["request"].get("what") == "step" else 0.0


def _asked(entry: dict[str, Any]) -> list[Any]:
    """What a request asked for, its seconds, and where they went: workers, start and turns of each lane; closing."""
    request, result = entry["request"], entry["result"]
    lanes = [
        [rate["lane"]["num_workers"], round(rate["start_seconds"], 2), round(rate["turn_seconds"], 2)]
        for rate in result.get("lanes", [])
    ]
    closing = round(result.get("close_seconds", 0.0), 2)
    return [request.get("what", request["kind"]), round(entry["seconds"], 2), lanes, closing]


def say_asked(pipeline: str, asked: list[list[Any]]) -> None:
    """Lines of progress: where the seconds of each request went."""
    for what, seconds, lanes, closing in asked:
        parts = [f"{num} workers: start {start:.2f}, turns {turns:.2f}" for num, start, turns in lanes]
        say(pipeline, seconds, "; ".join([f"  {what}", *parts, f"closing {closing:.2f}"]))


def run_loadtune(pipeline: str) -> tuple[LoaderSettings | None, float, str]:
    """What loadtune chooses, in a process of its own; its other knobs are left out."""
    import subprocess

    started = time.perf_counter()
    command = [sys.executable, __file__, "--loadtune", pipeline]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=240)
        found = json.loads(done.stdout.splitlines()[-1])
    except (subprocess.TimeoutExpired, IndexError, ValueError) as error:
        return None, time.perf_counter() - started, f"{type(error).__name__}"
    lane = LoaderSettings(num_workers=found["num_workers"], prefetch_factor=found["prefetch_factor"] or 2)
    return lane, time.perf_counter() - started, found["label"]


def tune_by_loadtune(pipeline: str) -> dict[str, Any]:
    """loadtune's own search on the pipeline, at its usual settings but 30 steps a trial."""
    import loadtune
    import pipelines
    from loadtune.workload import Workload

    job = pipelines.job(pipeline)

    def step(model: Any, optimizer: Any, batch: Any, device: Any) -> Any:
        loss = job.loss(model, [part.to(device) for part in batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    workload = Workload(
        name=pipeline,
        make_dataset=job.train_data,
        make_model=job.model,
        train_step=step,
        make_optimizer=lambda model: job.optimizer(model, 0.001),
        default_batch_size=job.baseline.batch_size,
        collate_fn=job.collate,
    )
    result = loadtune.tune(workload, steps=30, warmup=5, fast=True, verbose=False)
    best = result.best.knobs if result.best and result.speedup > 1 else None
    knobs = {"num_workers": best.num_workers, "prefetch_factor": best.prefetch_factor} if best else {}
    return {"num_workers": 0, "prefetch_factor": None, "label": best.label() if best else "baseline", **knobs}


def sweep(race: Racer, num_cores: int) -> tuple[dict[LoaderSettings, float], float]:
    """Samples per second of every setting by its median turn, and the seconds all of them took."""
    started, swept = time.perf_counter(), {}
    for lane in sweep_lanes(num_cores):
        rates = race([lane], *SWEEP_TURNS)[lane]
        swept[lane] = sorted(rates)[len(rates) // 2]
    return swept, time.perf_counter() - started


def say(pipeline: str, seconds: float, what: str) -> None:
    """A line of progress."""
    print(f"{pipeline}: {seconds:6.1f} s  {what}", file=sys.stderr, flush=True)


def compare(pipeline: str, device: str, *, with_loadtune: bool) -> dict[str, Any]:
    """One row: choices, their seconds, and their scores in the last race."""
    num_cores = read_limits().num_cores
    started = time.perf_counter()
    race = Racer(pipeline, device)
    start_seconds = time.perf_counter() - started
    say(pipeline, start_seconds, f"a child is ready, {num_cores} cores")
    try:
        found = run_legroom(race)
        say_asked(pipeline, found["asked"])
        say(pipeline, found["seconds"], f"legroom chose {found['lane'].num_workers} workers")
        swept, sweep_seconds = sweep(race, num_cores)
    except BaseException:
        race.worker.close()
        raise
    say(pipeline, sweep_seconds, f"swept {len(swept)} settings")
    choices = {
        "legroom": found["lane"],
        "lightning": LoaderSettings(num_workers=max(1, num_cores - 1)),
        "0": LoaderSettings(num_workers=0),
        "4": LoaderSettings(num_workers=4),
        "cpu_count": LoaderSettings(num_workers=os.cpu_count() or 1),
    }
    row = {"pipeline": pipeline, "device": device, "num_cores": num_cores, "bound_by": found["bound_by"]}
    if with_loadtune:
        lane, seconds, label = run_loadtune(pipeline)
        choices |= {"loadtune": lane} if lane else {}
        row |= {"loadtune_seconds": seconds, "loadtune_label": label}
    best = sorted(swept, key=lambda lane: swept[lane], reverse=True)[:3]
    choices["sweep"] = best[0]
    behind = {lane for lane in swept if swept[lane] < FAR_BEHIND * swept[best[0]]} - {choices["legroom"]}
    lanes = [lane for lane in dict.fromkeys([*choices.values(), *best]) if lane not in behind]
    started = time.perf_counter()
    rates = race(lanes, *LAST_TURNS)
    race.worker.close()
    say(pipeline, time.perf_counter() - started, f"raced {len(lanes)} settings against each other")
    medians = {lane: sorted(values)[len(values) // 2] for lane, values in rates.items()}
    top = max(medians.values())
    scale = medians[best[0]] / swept[best[0]]  # the sweep's best ran in the race too
    shares = {lane: (medians[lane] if lane in medians else scale * swept[lane]) / top for lane in choices.values()}
    return row | {
        "shares": found["shares"],
        "asked": found["asked"],
        "race_asked": race.asked,
        "legroom_seconds": found["seconds"],
        "legroom_start_seconds": found["start_seconds"],
        "sweep_seconds": sweep_seconds,
        "sweep_start_seconds": start_seconds,
        "choices": {name: [lane.num_workers, lane.prefetch_factor] for name, lane in choices.items()},
        "scores": {name: shares[lane] for name, lane in choices.items()},
        "best": next([lane.num_workers, lane.prefetch_factor] for lane in medians if medians[lane] == top),
        "best_samples_per_second": top,
        "swept": [[lane.num_workers, lane.prefetch_factor, rate] for lane, rate in swept.items()],
        "raced": [[lane.num_workers, lane.prefetch_factor, values] for lane, values in rates.items()],
    }


def print_table(rows: list[dict[str, Any]]) -> None:
    """One row a pipeline, then what the rows come to."""
    known = {name for row in rows for name in row["scores"]}
    names = [name for name in ("legroom", "sweep", "lightning", "0", "4", "cpu_count", "loadtune") if name in known]
    print(f"| pipeline | best | {' | '.join(names)} | search s | sweep s | ratio | bound by |")
    print("|---" * (len(names) + 6) + "|")
    for row in rows:
        cells = [_cell(row, name) for name in names]
        ratio = row["legroom_seconds"] / row["sweep_seconds"]
        seconds = f"{row['legroom_seconds']:.1f} | {row['sweep_seconds']:.1f} | {ratio:.2f}"
        best = f"{row['best'][0]} (x{row['best'][1]})"
        print(f"| {row['pipeline']} | {best} | {' | '.join(cells)} | {seconds} | {row['bound_by']} |")
    for limit in (0.95, 0.97):
        counts = [f"{name} {sum(row['scores'].get(name, 0) >= limit for row in rows)}" for name in names]
        print(f"\nat least {limit:.0%} of the best, of {len(rows)}: {', '.join(counts)}")
    total = sum(row["legroom_seconds"] for row in rows) / sum(row["sweep_seconds"] for row in rows)
    print(f"\nlegroom's seconds over the sweep's, start-up of both left out: {total:.2f}")


def _cell(row: dict[str, Any], name: str) -> str:
    if name not in row["scores"]:
        return "failed"
    workers, ahead = row["choices"][name]
    return f"{workers}{'' if ahead == 2 else f' (x{ahead})'}: {row['scores'][name]:.0%}"


def main() -> None:
    """Read the words and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, nargs="?", default=Path("loading-out"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--pipelines", nargs="*", default=list(PIPELINES), choices=PIPELINES)
    parser.add_argument("--no-loadtune", action="store_true")
    parser.add_argument("--table", action="store_true", help="print what OUT/loading.jsonl holds; run nothing")
    parser.add_argument("--loadtune", help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.loadtune:
        print(json.dumps(tune_by_loadtune(words.loadtune)))
        return
    words.out.mkdir(parents=True, exist_ok=True)
    path = words.out / "loading.jsonl"
    for pipeline in [] if words.table else words.pipelines:
        try:
            row = compare(pipeline, words.device, with_loadtune=not words.no_loadtune)
        except LegroomError as error:
            print(f"{pipeline}: {error}", file=sys.stderr)
            continue
        with path.open("a") as file:
            file.write(json.dumps(row) + "\n")
        choice, score = row["choices"]["legroom"], row["scores"]["legroom"]
        print(f"{pipeline}: {choice}, {score:.0%} of the best {row['best']}", file=sys.stderr)
    if path.exists():
        rows = {row["pipeline"]: row for row in map(json.loads, path.read_text().splitlines())}
        print_table(list(rows.values()))


if __name__ == "__main__":
    main()
