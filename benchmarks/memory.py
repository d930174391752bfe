"""How large a batch fits: legroom's proof and its estimate, against what a GPU really holds.

    python benchmarks/memory.py proof OUT        every cell searched and proved, then checked in new processes (GPU)
    python benchmarks/memory.py estimate OUT     the same cells estimated; no GPU is used
    python benchmarks/memory.py table OUT        what the two wrote, side by side

Caps on torch's memory make one large card stand in for smaller ones. Results are JSON lines in OUT, a cell each; a cell
that is already there is not run again.
"""

import argparse
import json
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from legroom import api
from legroom.engines.local import LocalEngine
from legroom.errors import LegroomError
from legroom.job_address import JobAddress, address_of
from legroom.questions.memory.allocator.estimate import MemoryEstimate
from legroom.questions.memory.records import StepPeaks, TracedMemory, TraceMemory

GIB = 2**30
CAPS = (8, 16, 40)
ELEVEN = (
    "resnet34", "resnet50", "resnet152", "densenet201", "alexnet", "r3d_18", "vit_b_16", "efficientnet_b0",
    "convnext_tiny", "word_lstm", "bigru",
)  # fmt: skip
THREE = ("resnet50", "vit_b_16", "word_lstm")
RECURRENT = ("word_lstm", "bigru", "ctc")
COLUMNS = (
    "model", "optimizer", "precision", "cap GiB", "proved", "again", "+1 %", "+2 %, +1", "OOMs", "sizes", "s",
    "estimate", "error",
)  # fmt: skip
AT_ONCE_GIB = 120
"""Caps of all cells that run at the same time: the card holds 139 GiB."""


@dataclass(frozen=True)
class Cell:
    """One model, optimizer, precision and cap."""

    model: str
    optimizer: str
    precision: str
    cap_gib: int

    @property
    def address(self) -> JobAddress:
        """The job of the cell."""
        zoo = Path(__file__).with_name("zoo.py")
        return address_of(f"{zoo}:job", {"model": self.model, "optimizer": self.optimizer})


def cells() -> Iterator[Cell]:
    """Eleven models with SGD in fp32, three of them with AdamW and in bf16, and two that only a real step can trace."""
    for cap in CAPS:
        yield from (Cell(model, "sgd", "fp32", cap) for model in ELEVEN)
        yield from (Cell(model, "adamw", "fp32", cap) for model in THREE)
        yield from (Cell(model, "sgd", "bf16", cap) for model in THREE)
    yield from (Cell(model, "sgd", "fp32", 16) for model in ("ctc", "masked"))


def fits(cell: Cell, batch_size: int, allocator: str = "expandable") -> str:
    """What five steps and an evaluation pass in a new process come to under the cap."""
    request = StepPeaks(
        device="cuda",
        batch_size=batch_size,
        num_steps=5,
        precision=cell.precision,
        proof=True,
        cap_bytes=cell.cap_gib * GIB,
        allocator=allocator,  # type: ignore[arg-type]
    )
    worker = LocalEngine().start(cell.address, request.environment)
    try:
        return worker.ask(request).outcome  # type: ignore[union-attr]
    except LegroomError as error:
        return "out_of_memory" if type(error).__name__ == "OutOfMemory" else f"failed: {error}"
    finally:
        worker.close()


def prove(cell: Cell) -> dict[str, Any]:
    """Search and prove the cell, then look one and two per cent further in new processes."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        answer = api.memory(
            cell.address,
            device="cuda",
            memory=cell.cap_gib * GIB,
            precision=cell.precision,
            run=api.Run(out=Path(folder)),
        )
    seconds = time.perf_counter() - started
    found = answer.max_batch_size
    proofs = [p for p in answer.probes if p["proof"] and p["outcome"] == "measured" and p["batch_size"] == found]
    allocator = proofs[-1]["allocator"]
    one_percent = fits(cell, int(found * 1.01) + 1, allocator)
    two_percent = fits(cell, int(found * 1.02) + 1, allocator) if one_percent == "measured" else "-"
    return {
        "batch_size": found,
        "allocator": allocator,
        "eval_batch_size": answer.eval_batch_size,
        "seconds": seconds,
        "asked_seconds": answer.seconds,
        "num_ooms": answer.num_ooms,
        "num_sizes": len({probe["batch_size"] for probe in answer.probes if not probe["proof"]}),
        "num_proofs": sum(probe["proof"] for probe in answer.probes),
        "fits_again": fits(cell, found, allocator),
        "one_percent_more": one_percent,
        "two_percent_more": two_percent,
        "probes": answer.probes,
    }


def estimate(cell: Cell) -> dict[str, Any]:
    """The largest batch by a trace in a process that sees no GPU."""
    worker = LocalEngine().start(cell.address, {"CUDA_VISIBLE_DEVICES": ""})
    started = time.perf_counter()
    try:
        result = worker.ask(TraceMemory(precision=cell.precision))
    finally:
        worker.close()
    assert isinstance(result, TracedMemory)
    found = MemoryEstimate.from_record(result.estimate)
    return {
        "batch_sizes": {str(cap): found.largest_batch(cap * GIB) for cap in CAPS},
        "method": found.method,
        "reason": found.reason,
        "seconds": found.seconds,
        "seconds_with_start": time.perf_counter() - started,
    }


class Budget:
    """Lets cells run together while their caps fit the card."""

    def __init__(self, total: int) -> None:
        self.free = total
        self.changed = threading.Condition()

    def take(self, amount: int) -> None:
        """Wait for so much."""
        with self.changed:
            self.changed.wait_for(lambda: self.free >= amount)
            self.free -= amount

    def give(self, amount: int) -> None:
        """Return it."""
        with self.changed:
            self.free += amount
            self.changed.notify_all()


def run_all(kind: str, wanted: list[Cell], path: Path, num_together: int) -> None:
    """Run the cells, write each as it ends."""
    function = {"proof": prove, "estimate": estimate}[kind]
    budget, lock = Budget(AT_ONCE_GIB), threading.Lock()

    def one(cell: Cell) -> None:
        budget.take(cell.cap_gib)
        try:
            row = {"cell": asdict(cell), **function(cell)}
        except Exception as error:
            row = {"cell": asdict(cell), "error": f"{type(error).__name__}: {error}"}
        finally:
            budget.give(cell.cap_gib)
        with lock, path.open("a") as file:
            file.write(json.dumps(row) + "\n")

    with ThreadPoolExecutor(num_together) as pool:
        list(pool.map(one, wanted))


def read(path: Path) -> list[dict[str, Any]]:
    """The rows written so far."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def key(cell: dict[str, Any]) -> tuple[str, str, str]:
    """A cell without its cap."""
    return cell["model"], cell["optimizer"], cell["precision"]


def print_table(folder: Path) -> None:
    """The last proof and the estimate of every cell, then the figures that are promised."""
    estimates = {key(row["cell"]): row for row in read(folder / "estimate.jsonl") if "error" not in row}
    newest = {(*key(row["cell"]), row["cell"]["cap_gib"]): row for row in read(folder / "proof.jsonl")}
    rows = [newest[place] for place in sorted(newest)]
    print("| " + " | ".join(COLUMNS) + " |\n" + "|---" * len(COLUMNS) + "|")
    errors: list[tuple[str, float]] = []
    for row in rows:
        cell = row["cell"]
        head = f"| {cell['model']} | {cell['optimizer']} | {cell['precision']} | {cell['cap_gib']} |"
        if "error" in row:
            print(f"{head} {row['error'][:80]} |")
            continue
        guess = estimates.get(key(cell), {}).get("batch_sizes", {}).get(str(cell["cap_gib"]))
        error = None if guess is None else guess / row["batch_size"] - 1
        if error is not None:
            errors.append((cell["model"], error))
        print(
            f"{head} {row['batch_size']} | {row['fits_again']} | {row['one_percent_more']} | {row['two_percent_more']} "
            f"| {row['num_ooms']} | {row['num_sizes']} | {row['seconds']:.1f} | {guess} "
            f"| {'' if error is None else f'{error:+.1%}'} |"
        )
    _print_summary([row for row in rows if "error" not in row], errors)


def _print_summary(rows: list[dict[str, Any]], errors: list[tuple[str, float]]) -> None:
    if rows:
        print(f"\ncells {len(rows)}; proved batch fits again in {sum(r['fits_again'] == 'measured' for r in rows)}")
        print(f"2 % larger plus one does not fit in {sum(r['two_percent_more'] != 'measured' for r in rows)}")
        print(f"1 % larger does not fit in {sum(r['one_percent_more'] != 'measured' for r in rows)}")
        print(
            f"without an OOM {sum(r['num_ooms'] == 0 for r in rows)}; most in a cell {max(r['num_ooms'] for r in rows)}"
        )
        print(f"most probe sizes {max(r['num_sizes'] for r in rows)}")
    if errors:
        plain = [abs(error) for model, error in errors if model not in RECURRENT]
        recurrent = [abs(error) for model, error in errors if model in RECURRENT]
        median = statistics.median(abs(error) for _, error in errors)
        print(f"estimate: median error {median:.1%}, worst {max(plain, default=0):.1%}")
        num_high = sum(error > 0 for _, error in errors)
        print(f"recurrent: worst {max(recurrent, default=0):.1%}; too high in {num_high} of {len(errors)}")


def main() -> None:
    """Read the words and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("proof", "estimate", "table"))
    parser.add_argument("out", type=Path)
    parser.add_argument("--models", nargs="*", help="only these")
    parser.add_argument("--caps", nargs="*", type=int, help="only these, in GiB")
    parser.add_argument("--together", type=int, default=1, help="cells at the same time; 1 for honest seconds")
    words = parser.parse_args()
    words.out.mkdir(parents=True, exist_ok=True)
    wanted = [cell for cell in cells() if not words.models or cell.model in words.models]
    wanted = [cell for cell in wanted if not words.caps or cell.cap_gib in words.caps]
    if words.what == "estimate":  # one trace serves every cap
        wanted = list({key(asdict(cell)): cell for cell in wanted}.values())
    if words.what != "table":
        path = words.out / f"{words.what}.jsonl"
        done = [row["cell"] for row in read(path) if "error" not in row]
        run_all(words.what, [cell for cell in wanted if asdict(cell) not in done], path, words.together)
    print_table(words.out)


if __name__ == "__main__":
    main()
