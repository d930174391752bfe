"""Finders of the largest batch on one GPU, side by side: legroom, Lightning's and accelerate's.

    python benchmarks/finders.py OUT [--models ...] [--only ...] [--cap 16] [--together 1]

Every finder runs in a process of its own under the same cap, with torch's default allocator and with expandable
segments. Start-up is counted apart: imports, the CUDA context, reading the job. Rows are JSON lines in OUT.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

GIB = 2**30
MODELS = ("resnet50", "vit_b_16", "word_lstm")
PEERS = ("lightning-power", "lightning-binsearch", "accelerate")
ALLOCATORS = {"default": {}, "expandable": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}}
COLUMNS = (
    "model",
    "finder",
    "allocator",
    "batch",
    "OOMs",
    "s after start-up",
    "s from command to answer",
    "fits again",
)
FIRST_OF_ACCELERATE = 8192
"""accelerate only goes down, so it must be told where to begin; powers of two are what people write."""


def run_peer(finder: str, model: str, cap_gib: int) -> dict[str, Any]:
    """The finder in this process; seconds count from when model and card are ready."""
    import torch
    import zoo
    from torch.utils.data import DataLoader, default_collate

    torch.cuda.set_per_process_memory_fraction(cap_gib * GIB / torch.cuda.get_device_properties(0).total_memory)
    job = zoo.job(model)
    torch.zeros(1, device="cuda")
    data = job.train_data()
    num_ooms = 0

    def train(batch_size: int, num_steps: int = 3) -> None:
        module = job.model().cuda()
        optimizer = job.optimizer(module, 0.01)
        batch = default_collate([data[0]] * batch_size)
        for _ in range(num_steps):
            moved = [tensor.cuda() for tensor in batch]
            job.loss(module, moved).backward()
            optimizer.step()
            optimizer.zero_grad()
        torch.cuda.synchronize()

    def counted(batch_size: int) -> int:
        nonlocal num_ooms
        try:
            train(batch_size)
        except torch.OutOfMemoryError:
            num_ooms += 1
            raise
        return batch_size

    started = time.perf_counter()
    if finder == "accelerate":
        from accelerate.utils import find_executable_batch_size

        found = find_executable_batch_size(counted, starting_batch_size=FIRST_OF_ACCELERATE)()
    else:
        import lightning
        from lightning.pytorch.tuner import Tuner

        class Module(lightning.LightningModule):
            def __init__(self) -> None:
                super().__init__()
                self.net, self.batch_size = job.model(), 2

            def train_dataloader(self) -> Any:
                return DataLoader(data, self.batch_size)

            def training_step(self, batch: Any, index: int) -> Any:
                nonlocal num_ooms
                try:
                    return job.loss(self.net, batch)
                except torch.OutOfMemoryError:
                    num_ooms += 1
                    raise

            def configure_optimizers(self) -> Any:
                return job.optimizer(self.net, 0.01)

            def backward(self, loss: Any, *rest: Any) -> None:
                nonlocal num_ooms
                try:
                    loss.backward()
                except torch.OutOfMemoryError:
                    num_ooms += 1
                    raise

        started = time.perf_counter()  # its import is start-up too
        with tempfile.TemporaryDirectory() as folder:
            trainer = lightning.Trainer(
                accelerator="gpu", devices=1, logger=False, default_root_dir=folder, enable_progress_bar=False
            )
            found = Tuner(trainer).scale_batch_size(Module(), mode=finder.partition("-")[2])
    return {"batch_size": found, "num_ooms": num_ooms, "search_seconds": time.perf_counter() - started}


def run_legroom(model: str, cap_gib: int) -> dict[str, Any]:
    """`legroom memory` as a user calls it; start-up is what it took until the card was read."""
    zoo = Path(__file__).with_name("zoo.py")
    with tempfile.TemporaryDirectory() as folder:
        words = ["memory", f"{zoo}:job", "--with", f"model={model}", "--device", "cuda", "--memory", f"{cap_gib}GiB"]
        command = [sys.executable, "-m", "legroom", *words, "--json", "--quiet", "--out", folder]
        started = time.perf_counter()
        answer = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        seconds = time.perf_counter() - started
        lines = [json.loads(line) for line in Path(folder, "logbook.jsonl").read_text().splitlines()]
    entries = [line["entry"] for line in lines if "entry" in line]
    questions = [entry for entry in entries if entry["request"]["kind"] == "step_peaks"]
    proofs = [p for p in answer["probes"] if p["proof"] and p["batch_size"] == answer["max_batch_size"]]
    return {
        "allocator": next(proof["allocator"] for proof in proofs if proof["outcome"] == "measured"),
        "batch_size": answer["max_batch_size"],
        "num_ooms": answer["num_ooms"],
        "search_seconds": sum(entry["seconds"] for entry in questions),
        "seconds": seconds,
        "parts": [
            (entry["request"]["kind"], entry["request"].get("batch_size"), entry["seconds"]) for entry in entries
        ],
    }


def run_one(finder: str, model: str, allocator: str, cap_gib: int) -> dict[str, Any]:
    """One row; a peer runs in a new process."""
    row: dict[str, Any] = {"finder": finder, "model": model, "allocator": allocator, "cap_gib": cap_gib}
    if finder == "legroom":
        return row | run_legroom(model, cap_gib)
    command = [sys.executable, __file__, "--one", finder, model, str(cap_gib)]
    started = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | ALLOCATORS[allocator], timeout=240)
    row["seconds"] = time.perf_counter() - started
    if done.returncode:
        return row | {"error": (done.stderr.strip().splitlines() or ["?"])[-1][:200]}
    return row | json.loads(done.stdout.splitlines()[-1])


def check(row: dict[str, Any]) -> str:
    """What the found batch comes to in a new process: five steps and an evaluation pass under the cap."""
    from memory import Cell, fits

    return fits(Cell(row["model"], "sgd", "fp32", row["cap_gib"]), row["batch_size"], row["allocator"])


def run_all(models: list[str], only: list[str], cap_gib: int, together: int, path: Path) -> list[dict[str, Any]]:
    """Every finder on every model; each row is written as it ends."""
    wanted = [(finder, model, allocator) for model in models for allocator in ALLOCATORS for finder in PEERS]
    wanted += [("legroom", model, "expandable") for model in models]
    wanted = [cell for cell in wanted if not only or cell[0] in only]
    rows, lock = [], threading.Lock()

    def one(cell: tuple[str, str, str]) -> None:
        try:
            row = run_one(*cell, cap_gib)
            if "batch_size" in row:
                row["fits_again"] = check(row)
        except Exception as error:
            row = {
                "finder": cell[0],
                "model": cell[1],
                "allocator": cell[2],
                "error": f"{type(error).__name__}: {error}",
            }
        with lock, path.open("a") as file:
            file.write(json.dumps(row) + "\n")
            rows.append(row)

    with ThreadPoolExecutor(together) as pool:
        list(pool.map(one, sorted(wanted, key=lambda cell: (cell[1], cell[0] != "legroom"))))
    return sorted(rows, key=lambda row: (row["model"], row["finder"], row["allocator"]))


def print_table(rows: list[dict[str, Any]]) -> None:
    """One row a finder."""
    print("| " + " | ".join(COLUMNS) + " |\n" + "|---" * len(COLUMNS) + "|")
    for row in rows:
        head = f"| {row['model']} | {row['finder']} | {row['allocator']} |"
        if "error" in row:
            print(f"{head} {row['error']} |")
        else:
            print(
                f"{head} {row['batch_size']} | {row['num_ooms']} | {row['search_seconds']:.1f} | {row['seconds']:.1f} "
                f"| {row['fits_again']} |"
            )


def main() -> None:
    """Read the words and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--models", nargs="*", default=list(MODELS))
    parser.add_argument("--only", nargs="*", help="only these finders")
    parser.add_argument("--cap", type=int, default=16, help="GiB that torch may reserve")
    parser.add_argument("--together", type=int, default=1, help="finders at the same time; 1 for honest seconds")
    parser.add_argument("--one", nargs=3, metavar=("FINDER", "MODEL", "CAP"), help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.one:
        finder, model, cap = words.one
        print(json.dumps(run_peer(finder, model, int(cap))))
        return
    words.out.mkdir(parents=True, exist_ok=True)
    print_table(run_all(words.models, words.only, words.cap, words.together, words.out / "finders.jsonl"))


if __name__ == "__main__":
    main()
