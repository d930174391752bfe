"""Batch, rate and workers of a training on photographs: by `legroom plan`, and by the best chain one can make today.

    python benchmarks/chain.py OUT --photos DIR [--copies 40] [--model resnet50] [--size 224] [--device auto]
        [--memory 16GiB]
    python benchmarks/chain.py OUT --copies 4 --model resnet18 --size 32 --rate-steps 20 --steps 9 --budget 20s

The chain is Lightning's: `scale_batch_size(mode="binsearch")`, then `lr_find` at that batch, then the number of workers
that its warning names in a first fit. Both see copies of the JPEG files in DIR, a class for each file; without --photos
a few drawn ones. Of `legroom plan` the seconds of memory, speed and loading are told apart from those of its rate and
of trying it out, which the chain does not do. Start-up of the chain is its imports and the reading of the job.

With --memory torch may reserve no more than that in either arm, as on a smaller card.

Then both settings train for as many steps in the same loop (`legroom train`), for their samples a second. The second
line is the smoke test of this file, on any machine.
"""

import argparse
import json
import re
import subprocess
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from legroom.units import parse_bytes

FOLDER = "photos"
ASKED = ("memory", "speed", "loading", "loading first")
"""Questions that the chain answers too, but for its rate."""
COLUMNS = ("", "batch", "workers", "rate", "samples/s", "its parts", "from command to answer")


def copy_photos(out: Path, photos: Path | None, copies: int) -> None:
    """Folders of classes in OUT, each with as many copies of one JPEG file."""
    files = {path.stem: path.read_bytes() for path in sorted(photos.iterdir())} if photos else _drawn()
    for name, content in files.items():
        folder = out / FOLDER / name
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(copies):
            (folder / f"{number}.jpg").write_bytes(content)


def _drawn(num: int = 4) -> dict[str, bytes]:
    from legroom.workloads.readers.photos import make_photos

    return {f"drawn{number}": content for number, content in enumerate(make_photos(num, num).files[:num])}


def job_words(words: argparse.Namespace) -> dict[str, str]:
    """The job's options."""
    return {"data": str(words.out.resolve()), "images": FOLDER, "model": words.model, "size": str(words.size)}


def run(command: Sequence[str]) -> tuple[dict[str, Any], float]:
    """What the command prints as JSON, and the seconds from command to answer."""
    started = time.perf_counter()
    ran = subprocess.run(command, capture_output=True, text=True)
    seconds = time.perf_counter() - started
    if ran.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {ran.returncode}:\n{ran.stderr.strip()[-2000:]}")
    return json.loads(ran.stdout.splitlines()[-1] if ran.stdout.count("\n") < 2 else ran.stdout), seconds


def legroom(question: str, words: argparse.Namespace, *more: str) -> tuple[dict[str, Any], float]:
    """The answer of a command, and its seconds."""
    options = [f"--with={name}={value}" for name, value in job_words(words).items()]
    at = ["--device", words.device, "--out", str(words.out / f"legroom-{question}"), "--json", "--quiet"]
    return run([sys.executable, "-m", "legroom", question, "image-folder", *options, *at, *more])


def planned(words: argparse.Namespace) -> dict[str, Any]:
    """What `legroom plan` says, and what it took."""
    memory = ["--memory", words.memory] if words.memory else []
    answer, seconds = legroom("plan", words, "--budget", words.budget, *memory)
    spent = answer["spent"]
    asked = {name: spent[name] for name in ASKED if name in spent}
    rest = {"the rest": sum(spent.values()) - sum(asked.values())}
    found = {name: answer[name] for name in ("batch_size", "num_workers", "learning_rate")}
    return {"who": "legroom plan", **found, "parts": asked | rest, "seconds": seconds}


def chained(words: argparse.Namespace) -> dict[str, Any]:
    """What the chain says, in a process of its own, and what it took."""
    given = {**job_words(words), "device": words.device, "rate_steps": words.rate_steps}
    given["memory"] = words.memory
    answer, seconds = run([sys.executable, __file__, str(words.out), "--one", json.dumps(given)])
    return {"who": "Lightning's chain", **answer, "seconds": seconds}


def chain(
    data: str, images: str, model: str, size: str, device: str, rate_steps: int, memory: str | None
) -> dict[str, Any]:
    """The chain itself, in this process."""
    started = time.perf_counter()
    import lightning
    import torch
    from lightning.pytorch.tuner import Tuner
    from torch.utils.data import DataLoader

    from legroom import load_job

    if memory:
        share = parse_bytes(memory) / torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(share)
    job = load_job("image-folder", {"data": data, "images": images, "model": model, "size": size})
    photos = job.train_data()

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net, self.batch_size, self.lr, self.num_workers = job.model(), 2, 0.01, 0

        def train_dataloader(self) -> Any:
            return DataLoader(photos, self.batch_size, shuffle=True, num_workers=self.num_workers, drop_last=True)

        def training_step(self, batch: Any, index: int) -> Any:
            loss = job.loss(self.net, batch)
            return loss[0] if isinstance(loss, tuple) else loss

        def configure_optimizers(self) -> Any:
            return job.optimizer(self.net, self.lr)

    module, parts, quiet = Module(), {"start-up": time.perf_counter() - started}, {"logger": False}
    quiet |= {"enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
    accelerator = {"cuda": "gpu"}.get(device, device)

    def timed(name: str, work: Any) -> Any:
        begun = time.perf_counter()
        found = work()
        parts[name] = time.perf_counter() - begun
        return found

    def tuner() -> Tuner:
        return Tuner(lightning.Trainer(accelerator=accelerator, devices=1, default_root_dir=data, **quiet))

    warnings.simplefilter("ignore")
    most = min(8192, len(photos))  # its own limit, and that of the loop that both are timed in
    timed("batch", lambda: tuner().scale_batch_size(module, mode="binsearch", max_val=most))
    rate = timed("rate", lambda: tuner().lr_find(module, num_training=rate_steps).suggestion())
    told = timed("workers", lambda: _workers_told(module, {"accelerator": accelerator, **quiet}))
    return {"batch_size": module.batch_size, "num_workers": told, "learning_rate": rate, "parts": parts}


def _workers_told(module: Any, words: dict[str, Any]) -> int:
    """The number of workers that Lightning's warning names; 0 where it does not warn."""
    import lightning

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        lightning.Trainer(devices=1, max_steps=1, **words).fit(module)
    found = [re.search(r"num_workers=(\d+)", str(one.message)) for one in said]
    return next((int(one.group(1)) for one in found if one), 0)


def throughput(row: dict[str, Any], words: argparse.Namespace) -> float | None:
    """Samples a second with the settings of a row, in the loop of `legroom train`; None where they do not train."""
    given = ["--batch-size", str(row["batch_size"]), "--workers", str(row["num_workers"])]
    try:
        answer, _ = legroom("train", words, *given, "--learning-rate", "1e-6", "--steps", str(words.steps))
    except SystemExit as error:
        print(f"{row['who']}: {error}", file=sys.stderr)
        return None
    return float(answer["samples_per_second"])


def cells(row: dict[str, Any]) -> list[str]:
    """A row of the table."""
    parts = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in row["parts"].items())
    rate = "none" if row["learning_rate"] is None else f"{row['learning_rate']:.3g}"
    speed = "does not train" if row["throughput"] is None else f"{row['throughput']:,.0f}"
    numbers = [f"{row['batch_size']:,}", str(row["num_workers"]), rate, speed]
    return [row["who"], *numbers, parts, f"{row['seconds']:.1f} s"]


def main() -> None:
    """Run both, then print the table and keep the rows in OUT/chain.jsonl."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--photos", type=Path, help="a folder of JPEG files")
    parser.add_argument("--copies", type=int, default=40, help="of each file")
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--size", type=int, default=224, help="pixels a side")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--memory", help="that torch may reserve on a GPU, such as 16GiB")
    parser.add_argument("--budget", default="5min", help="of legroom plan")
    parser.add_argument("--rate-steps", type=int, default=100, help="of lr_find, whose own default that is")
    parser.add_argument("--steps", type=int, default=100, help="trained with either settings")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.one:
        print(json.dumps(chain(**json.loads(words.one))))
        return
    copy_photos(words.out, words.photos, words.copies)
    for line in (COLUMNS, ["---"] * len(COLUMNS)):
        print(f"| {' | '.join(line)} |")
    for make in (planned, chained):
        row = make(words)
        row |= {"throughput": throughput(row, words)}
        with (words.out / "chain.jsonl").open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(f"| {' | '.join(cells(row))} |", flush=True)


if __name__ == "__main__":
    main()
