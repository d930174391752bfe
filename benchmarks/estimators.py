"""Estimators of GPU memory that use no GPU, side by side: legroom, torch-preflight and torch-kitsune.

    python benchmarks/estimators.py OUT [--models ...] [--together 1]     run the two peers, then print the table
    python benchmarks/estimators.py OUT --table                           only the table

The truth is OUT/proof.jsonl and legroom's answer OUT/estimate.jsonl, both from benchmarks/memory.py; the peers' rows go
to OUT/estimators.jsonl. Each peer predicts the peak of a job at two batch sizes in a process of its own; both peaks are
affine in the batch, so the line through the two gives the largest batch under every cap. Caps are on torch's memory.
"""

import argparse
import importlib
import json
import logging
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from memory import CAPS, GIB, Cell, cells, key, read

TIMEOUT_SECONDS = 60
PEERS = ("preflight", "kitsune")
NAMES = ("legroom", *PEERS)
COLUMNS = (
    "model",
    "optimizer",
    "precision",
    "cap GiB",
    "truth",
    *(f"{n} error" for n in NAMES),
    *(f"{n} s" for n in NAMES),
)


class Unsupported(Exception):
    """The peer has no number for the job, and says so or cannot hide it."""


def preflight_line(model: str, optimizer: str, precision: str) -> tuple[float, float, str]:
    """Bytes with no sample, bytes a sample, and the method, by torch-preflight's VRAMGuard.

    Its activations are what autograd saves of one batch of the job's own size on the meta device, its most exact mode;
    its autocast is "amp". The CUDA context is left out of its peak, as the cap is on torch's memory alone. The loss is
    outside, by its documents.
    """
    import zoo
    from torch.utils.data import default_collate
    from torch_preflight import VRAMGuard
    from torch_preflight.vram import estimate

    job = zoo.job(model, optimizer)
    module = job.model()
    example = default_collate([job.train_data()[0]] * job.baseline.batch_size)[0]
    guard = VRAMGuard(
        module,
        optimizer=job.optimizer(module, 0.01),
        example_input=example,
        precision={"fp32": "fp32", "bf16": "amp"}[precision],
    )
    if guard.activation_source != "measured":
        try:  # the guard swallows the reason; the same pass tells it
            module.to("meta")(example.to("meta"))
        except Exception as error:
            raise Unsupported(f"activations unknown: {type(error).__name__}: {error}") from error
        raise Unsupported("activations unknown")

    def peak(batch_size: int) -> int:
        parts = estimate(guard.profile, guard.config.replace(batch_size=batch_size)).breakdown
        return int(parts.total - parts.cuda_context)

    return *line(peak, (1_000, 2_000)), "meta"


def kitsune_line(model: str, optimizer: str, precision: str) -> tuple[float, float, str]:
    """Bytes with no sample, bytes a sample, and the method, by torch-kitsune's predict_memory.

    It has no autocast: for bf16 the whole model is cast, or neither of its two traces would run. Where they fail it
    falls silently to formulas of layer types; its log tells. Sizes stay small, as one trace is a real pass on the CPU.
    """
    import torch
    import zoo
    from kitsune.predict import predict_memory

    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("kitsune.predict.activation_estimator")
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)

    job = zoo.job(model, optimizer)
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[precision]
    module = job.model().to(dtype)
    shape = tuple(job.train_data()[0][0].shape)

    def peak(batch_size: int) -> int:
        states = {"sgd": "sgd_momentum", "adamw": "adamw"}[optimizer]
        return int(predict_memory(module, shape, batch_size, dtype, states).total_bytes)

    fixed, slope = line(peak, (2, 4))
    by_formula = any(message.startswith("[formula]") for message in said)
    return fixed, slope, "formula" if by_formula else "trace"


def line(peak: Callable[[int], int], sizes: tuple[int, int]) -> tuple[float, float]:
    """Intercept and slope of the peak through two sizes."""
    low, high = sizes
    low_bytes, high_bytes = peak(low), peak(high)
    slope = (high_bytes - low_bytes) / (high - low)
    return low_bytes - slope * low, slope


def predict(peer: str, model: str, optimizer: str, precision: str) -> dict[str, Any]:
    """The peer in this process: its largest batch under every cap. Seconds leave out imports."""
    for name in ("zoo", {"preflight": "torch_preflight.vram.guard", "kitsune": "kitsune.predict"}[peer]):
        importlib.import_module(name)
    started = time.perf_counter()
    try:
        fixed, slope, method = {"preflight": preflight_line, "kitsune": kitsune_line}[peer](model, optimizer, precision)
    except Unsupported as error:
        return {"error": str(error)}
    return {
        "batch_sizes": {str(cap): max(int((cap * GIB - fixed) / slope), 0) for cap in CAPS},
        "method": method,
        "fixed_bytes": fixed,
        "bytes_per_sample": slope,
        "seconds": time.perf_counter() - started,
    }


def run_one(peer: str, cell: Cell, num_threads: int) -> dict[str, Any]:
    """One row, from a new process that sees no GPU."""
    row = {"peer": peer, "cell": asdict(cell)}
    command = [sys.executable, __file__, "--one", peer, *key(asdict(cell))]
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": str(num_threads)}
    started = time.perf_counter()
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        return row | {"error": f"no answer in {TIMEOUT_SECONDS} s"}
    row["seconds_with_start"] = time.perf_counter() - started
    if done.returncode:
        return row | {"error": (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1][:300]}
    return row | json.loads(done.stdout.splitlines()[-1])


def run_all(wanted: list[Cell], path: Path, num_together: int) -> None:
    """Both peers on every job, each row written as it ends; one prediction serves every cap."""
    jobs = {key(asdict(cell)): cell for cell in wanted}.values()
    num_threads = max((os.cpu_count() or 1) // num_together, 1)
    lock = threading.Lock()

    def one(asked: tuple[str, Cell]) -> None:
        row = run_one(*asked, num_threads)
        with lock, path.open("a") as file:
            file.write(json.dumps(row) + "\n")

    with ThreadPoolExecutor(num_together) as pool:
        list(pool.map(one, [(peer, cell) for cell in jobs for peer in PEERS]))


def print_table(wanted: list[Cell], folder: Path) -> None:
    """Every cell that has a truth, then what the errors come to."""
    truths = {Cell(**row["cell"]): row["batch_size"] for row in read(folder / "proof.jsonl") if "batch_size" in row}
    answers = {("legroom", key(row["cell"])): row for row in read(folder / "estimate.jsonl")}
    answers |= {(row["peer"], key(row["cell"])): row for row in read(folder / "estimators.jsonl")}
    known = [cell for cell in wanted if cell in truths]
    errors: dict[str, dict[Cell, float]] = {name: {} for name in NAMES}
    print("| " + " | ".join(COLUMNS) + " |\n" + "|---" * len(COLUMNS) + "|")
    for cell in known:
        rows = [answers.get((name, key(asdict(cell))), {"error": "not run"}) for name in NAMES]
        for name, row in zip(NAMES, rows, strict=True):
            if "error" not in row:
                errors[name][cell] = row["batch_sizes"][str(cell.cap_gib)] / truths[cell] - 1
        shown = [_shown(row, errors[name].get(cell)) for name, row in zip(NAMES, rows, strict=True)]
        seconds = [f"{row['seconds']:.1f}" if "seconds" in row else "" for row in rows]
        print("| " + " | ".join((*map(str, asdict(cell).values()), str(truths[cell]), *shown, *seconds)) + " |")
    _print_summary(known, errors, answers)


def _shown(row: dict[str, Any], error: float | None) -> str:
    if error is None:
        return str(row["error"]).replace("|", "/")[:80]
    return f"{error:+.1%}" + (" (formula)" if row.get("method") == "formula" else "")


def _print_summary(known: list[Cell], errors: dict[str, dict[Cell, float]], answers: dict[Any, dict[str, Any]]) -> None:
    def print_row(title: str, shown: Callable[[str], str], seconds: Callable[[str], str] = lambda name: "") -> None:
        print("| " + " | ".join((title, *[""] * 4, *map(shown, NAMES), *map(seconds, NAMES))) + " |")

    def took(name: str) -> list[float]:
        rows = [answers.get((name, which), {}) for which in {key(asdict(cell)) for cell in known}]
        return [row["seconds"] for row in rows if "seconds" in row]

    def of_errors(fold: Callable[[list[float]], str]) -> Callable[[str], str]:
        return lambda name: fold(list(errors[name].values())) if errors[name] else ""

    print_row(
        "median",
        of_errors(lambda all_of: f"{statistics.median(map(abs, all_of)):.1%}"),
        lambda name: f"{statistics.median(took(name)):.1f}" if took(name) else "",
    )
    print_row(
        "worst",
        of_errors(lambda all_of: f"{max(all_of, key=abs):+.1%}"),
        lambda name: f"{max(took(name)):.1f}" if took(name) else "",
    )
    print_row("too high in", of_errors(lambda all_of: str(sum(error > 0 for error in all_of))))
    print_row("answered", lambda name: f"{len(errors[name])} of {len(known)}")


def main() -> None:
    """Read the words and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--models", nargs="*", help="only these")
    parser.add_argument("--together", type=int, default=1, help="processes at the same time; 1 for honest seconds")
    parser.add_argument("--table", action="store_true", help="run nothing, print what was written")
    parser.add_argument("--one", nargs=4, metavar=("PEER", "MODEL", "OPTIMIZER", "PRECISION"), help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.one:
        print(json.dumps(predict(*words.one)))
        return
    if words.out is None:
        parser.error("OUT is missing: the folder with proof.jsonl and estimate.jsonl of benchmarks/memory.py")
    words.out.mkdir(parents=True, exist_ok=True)
    wanted = [cell for cell in cells() if not words.models or cell.model in words.models]
    if not words.table:
        run_all(wanted, words.out / "estimators.jsonl", words.together)
    print_table(wanted, words.out)


if __name__ == "__main__":
    main()
