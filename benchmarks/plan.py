"""`legroom plan`, then `legroom prove` with three seeds, on jobs of different kinds: did it pay, and was it foretold?

    python benchmarks/plan.py OUT [--jobs digits-lstm,digits-cnn] [--seeds 3] [--budget TIME] [--data DIR]
        [--device cuda]

Every job's own settings are those of its source, named in the table; data and model are reduced for both arms where
that is said, epochs are not. OUT holds a folder for each job, with its logbook, plan and proof; what is there is not
run again, and a job that was broken off goes on where it was. A table of all jobs in OUT is printed, and written as
OUT/table.md.

The columns: seconds to the target by the job's own settings and by the plan, in the geometric mean over seeds, or,
where some runs missed it, all seconds over the runs that met it; how many times as fast the plan was, in the geometric
mean of the seeds' own ratios with its range, which is the least that it can be where the job's own settings missed; how
many of the plan's runs kept to the forecast, what the plan cost in units of one whole run of the job's own, a verdict.
So where runs missed, the ratio is not that of the two columns before it.
"""

import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
NUM_WORDS, NUM_CHARACTERS, NUM_PAIRS = 120_000, 600_000, 2_000


@dataclass(frozen=True, kw_only=True)
class Case:
    """A job, and where its settings come from."""

    job: str
    source: str
    options: dict[str, str] = field(default_factory=dict)
    reduced: str = ""
    """What of the data is used."""
    prepare: Callable[[Path, Path], dict[str, str]] = lambda out, data: {}
    """Makes files of reduced data in OUT; returns options that name them."""


def words(out: Path, data: Path) -> dict[str, str]:
    """The beginning of WikiText-2 as a file of its own."""
    with zipfile.ZipFile(data / "wikitext-2" / "wikitext-2.zip") as archive:
        name = next(name for name in archive.namelist() if "train" in name)
        text = archive.read(name).decode()
    return {"text": _write(out / "words.txt", " ".join(text.split(" ")[:NUM_WORDS]))}


def characters(out: Path, data: Path) -> dict[str, str]:
    """The beginning of Python's standard library: enough to learn more than how frequent each character is."""
    modules = sorted(Path(argparse.__file__).parent.glob("*.py"))
    return {"text": _write(out / "characters.txt", "".join(each.read_text() for each in modules)[:NUM_CHARACTERS])}


def pairs(out: Path, data: Path) -> dict[str, str]:
    """The first pairs of the small vocabulary, as parallel files."""
    made = {}
    for name, language in (("source", "en"), ("target", "fr")):
        packed = (data / "small-vocab" / f"small_vocab_{language}.gz").read_bytes()
        lines = gzip.decompress(packed).decode().splitlines()[:NUM_PAIRS]
        made[name] = _write(out / f"{name}.txt", "\n".join(lines) + "\n")
    return made


def _write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path.resolve())


CASES = {
    "digits-lstm": Case(job="digits", source="our own measurement: docs/workloads.md"),
    "digits-cnn": Case(job="digits", options={"model": "cnn"}, source="as digits-lstm"),
    "digits-mlp": Case(job=f"{HERE / 'plan_jobs.py'}:digits_mlp", source="scikit-learn MLPClassifier's defaults"),
    "mnist-lstm": Case(
        job=f"{HERE / 'plan_jobs.py'}:mnist_lstm",
        source="batch and epochs: You et al. 2019, arXiv:1901.08256",
        reduced="6,000 of 60,000 images to learn, 500 of 10,000 to judge",
    ),
    "mnist-lstm-whole": Case(
        job="mnist-lstm",
        source="batch and epochs: You et al. 2019, arXiv:1901.08256; a run takes minutes",
    ),
    "mnist-cnn": Case(
        job=f"{HERE / 'plan_jobs.py'}:mnist_cnn",
        source="pytorch/examples, mnist/main.py",
        reduced="1,000 of 60,000 images to learn, 500 of 10,000 to judge",
    ),
    "char-lm": Case(
        job="char-lm",
        options={"hidden": "64", "depth": "3", "sequence": "50"},
        source="Ardalani et al. 2018, sections 1 and 2; clip: Zilly et al. 2017",
        reduced=f"{NUM_CHARACTERS:,} characters in sequences of 50; 64 units, 3 deep",
        prepare=characters,
    ),
    "word-lm": Case(
        job="word-lm",
        options={"hidden": "64", "words": "2000", "sequence": "20"},
        source="Ardalani et al. 2018, section 2; batch and rate as their character model",
        reduced=f"{NUM_WORDS:,} words in sequences of 20, 2,000 of them known; 64 units",
        prepare=words,
    ),
    "translation": Case(
        job="translation",
        options={"hidden": "32"},
        source="a study of batch size on GPUs, 2019: docs/workloads.md",
        reduced=f"{NUM_PAIRS:,} pairs; 32 units",
        prepare=pairs,
    ),
    "translation-whole": Case(
        job="translation",
        options={"hidden": "32"},
        source="a study of batch size on GPUs, 2019: docs/workloads.md; a run takes minutes",
        reduced="32 units",
    ),
    "speech": Case(
        job="speech",
        options={"hidden": "48", "layers": "2"},
        source="Deep Speech 2's shape; the rest ours: docs/workloads.md",
        reduced="48 units in 2 layers",
    ),
    "cifar-resnet18": Case(
        job="cifar-resnet18",
        source="batch, rate, momentum: He et al. 2015; one cycle: Smith and Topin 2017: docs/workloads.md",
    ),
    "cifar-small": Case(
        job=f"{HERE / 'plan_jobs.py'}:cifar_small",
        source="as cifar-resnet18",
        reduced="8,000 of 50,000 images to learn, 2,000 others to judge",
    ),
    "plain-file": Case(job=f"{HERE.parent / 'examples' / 'train.py'}:job", source="a user's file: examples/train.py"),
}


def run_case(name: str, case: Case, out: Path, words: argparse.Namespace) -> None:
    """Plan and prove one job; each answer is kept as JSON, and one that is there stands."""
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    options = {**case.options, **case.prepare(folder, words.data)}
    job = [case.job, *(f"--with={key}={value}" for key, value in options.items()), "--device", words.device]
    at = ["--out", str(folder / "legroom"), "--resume", "--quiet", "--json"]
    budget = ["--budget", words.budget] if words.budget else []
    if not _keep(folder / "plan.json", ["plan", *job, *budget, *at], words.data):
        return
    plan = ["--plan", str(folder / "legroom" / "plan.toml"), "--seeds", str(words.seeds)]
    _keep(folder / "prove.json", ["prove", *job, *plan, *at], words.data)


def _keep(path: Path, command: Sequence[str], data: Path) -> bool:
    """Whether the answer is there; a job that has none is told and left out."""
    if path.is_file():
        return True
    environment = {**os.environ, "LEGROOM_DATA": str(data)}
    ran = subprocess.run([sys.executable, "-m", "legroom", *command], env=environment, capture_output=True, text=True)
    if ran.returncode:
        print(f"{path.parent.name}: legroom {command[0]} ended with {ran.returncode}: {ran.stderr.strip()[-500:]}")
        return False
    path.write_text(ran.stdout)
    return True


def row(name: str, case: Case, folder: Path) -> list[str]:
    """What the proof of one job came to."""
    proof: dict[str, Any] = json.loads((folder / "prove.json").read_text())
    whole = [point["run_seconds"] for point in proof["points"] if point["arm"] == "rival"]
    cost = proof["plan_cost_seconds"]
    target = "{name} {value:.4g}".format(**proof["target"])
    span = "" if proof["range"] is None else " ({:.2f} to {:.2f})".format(*proof["range"])
    least = "at least " if proof["at_least"] else ""
    equal = proof["equal_time"] or {}
    return [
        name,
        target,
        *(_seconds(proof[key], proof[met], proof["seeds"]) for key, met in _ARMS),
        "" if proof["speedup"] is None else f"{least}{proof['speedup']:.2f}{span}",
        "" if proof["num_predicted_hits"] is None else _hits(proof),
        "" if cost is None else f"{cost:.0f} s, {cost / statistics.fmean(whole):.2f} runs",
        {True: "no worse", False: "worse", None: "not told"}[equal["no_worse"]] if equal else "",
        proof["verdict"],
        "; ".join(filter(None, [case.source, case.reduced])),
    ]


_ARMS = (("rival_seconds", "num_rival_reached"), ("plan_seconds", "num_plan_reached"))


def _seconds(seconds: float | None, num_met: int, seeds: Sequence[int]) -> str:
    for_each = "" if num_met == len(seeds) else " for each that met it"
    return f"{'never' if seconds is None else f'{seconds:.1f} s{for_each}'} ({num_met} of {len(seeds)})"


def _hits(proof: dict[str, Any]) -> str:
    low, high = proof["predicted_range"]
    return f"{proof['num_predicted_hits']} of {len(proof['seeds'])} ({low:.1f} to {high:.1f} s)"


def table(out: Path) -> str:
    """All jobs whose proof is there, as Markdown."""
    heads = (
        "job",
        "target",
        "own settings, mean",
        "plan, mean",
        "mean of the seeds' ratios",
        "forecast kept",
        "plan cost",
        "at equal time",
        "verdict",
    )
    rows = [row(name, case, out / name) for name, case in CASES.items() if (out / name / "prove.json").is_file()]
    lines = [(*heads, "settings from; data"), ("---",) * (len(heads) + 1), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def runs(out: Path) -> str:
    """Every plan in a sentence, and every run of its proof."""
    lines = []
    for name in CASES:
        if (out / name / "prove.json").is_file():
            plan, proof = (json.loads((out / name / f"{what}.json").read_text()) for what in ("plan", "prove"))
            spent = ", ".join(f"{what} {seconds:.0f} s" for what, seconds in plan["spent"].items())
            lines += [f"\n{name}: {plan['summary']}\n    asked: {spent}\n"]
            lines += [f"    {_run(point)}\n" for point in proof["points"]]
    return "".join(lines)


def _run(point: dict[str, Any]) -> str:
    met = "target after" if point["reached"] else "missed it in"
    return (
        f"{point['arm']:<9} seed {point['seed']}: {met} {point['seconds']:.3g} s and {point['num_steps']:,} updates; "
        f"ended at {point['last_value']:.4g} after {point['run_seconds']:.3g} s"
    )


def main() -> None:
    """Run the jobs that were named, then print what all came to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--jobs", default=",".join(name for name in CASES if not name.startswith("cifar")))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--budget", help="of each plan; legroom's own where absent")
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--device", default="cpu")
    words = parser.parse_args()
    names = words.jobs.split(",")
    unknown = [name for name in names if name not in CASES]
    if unknown:
        parser.error(f"there is no job {', '.join(unknown)}; known: {', '.join(CASES)}")
    for name in names:
        run_case(name, CASES[name], words.out, words)
    text = table(words.out)
    (words.out / "table.md").write_text(text)
    (words.out / "runs.txt").write_text(runs(words.out))
    print(text)


if __name__ == "__main__":
    main()
