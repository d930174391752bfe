"""`legroom memory` and `legroom plan` as a user runs them, on real processes."""

import json
import os
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from legroom.engines.local import LocalEngine
from legroom.host.process_memory import tree_bytes, tree_of
from legroom.job_address import address_of
from legroom.logbook import FILE_NAME, read_lines
from legroom.questions.memory.records import StepPeaks

JOBS = Path(__file__).parents[2] / "jobs"
WIDE = f"{JOBS / 'wide_layers.py'}:job"
"""A few thousand of its samples fill a budget, so that proofs are quick."""
CONTRACT = sorted(path.stem for path in JOBS.glob("*.py") if path.stem != "conftest" and "on_ranks" not in path.stem)
MEMORY_KEYS = {
    "legroom_version", "job", "machine", "seconds", "notes", "not_measured", "max_batch_size", "data_limit",
    "eval_batch_size", "range", "bytes_per_sample", "fixed_bytes", "verified", "estimate", "num_ooms", "probes",
    "micro_batch_size", "accumulation_steps", "settings",
}  # fmt: skip
PLAN_KEYS = {
    "batch_size", "accumulation_steps", "num_workers", "prefetch_factor", "learning_rate", "warmup_steps", "schedule",
    "num_steps", "num_epochs", "num_devices", "precision", "settings", "goal", "predicted_seconds", "predicted_range",
    "baseline_seconds", "recommendations", "cooldown_steps", "predicted_cost", "factors",
}  # fmt: skip


def fits(address, batch_size, budget):
    """The test's own truth: five steps and an evaluation pass in a fresh process stay inside the budget."""
    worker = LocalEngine().start(address, {}, alone=True)
    try:
        request = StepPeaks(device="cpu", batch_size=batch_size, num_steps=5, proof=True, num_workers=0)
        return worker.ask(request).training_bytes() <= budget
    finally:
        worker.close()


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """What a process answers within 600 MiB, and the words to ask for it again."""
    out = tmp_path_factory.mktemp("wide") / "o"
    words = ["--device", "cpu", "--memory", "600MiB", "--effective-batch", "10000", "--out", out]
    command = [sys.executable, "-m", "legroom", "memory", WIDE, *map(str, words), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout), ["memory", WIDE, *words, "--resume"]


def test_the_proved_batch_is_within_ten_percent_of_the_largest_by_bisection(wide):
    budget = 600 * 2**20
    found = wide[0]["max_batch_size"]
    address = address_of(WIDE)
    low, high = int(found * 0.9), int(found / 0.9) + 1
    assert fits(address, low, budget), "the largest batch is below what was proved"
    assert not fits(address, high, budget), f"{found} was proved, but even {high} fits"


HOLDING = """
import os
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import Dataset, get_worker_info

import legroom

def take(num_mib):
    return torch.ones(num_mib * 2**18)  # large enough to be mapped, and given back whole: the heap plays no part

class Holding(Dataset):
    def __init__(self, num_samples, num_mib):
        self.num_samples, self.num_mib, self.held = num_samples, num_mib, None

    def __len__(self):
        return self.num_samples

    def __getitem__(self, index):
        if get_worker_info() is not None and self.held is None:
            self.held = take(self.num_mib)
        return torch.full((8,), float(index))

def loss(model, batch):
    passing = take(64 if model.training else 192)
    if "LOOK" in os.environ and not model.training and batch.max() == 47:  # the last: both loader processes gave some
        look = Path(os.environ["LOOK"])
        look.touch()
        while look.exists():
            time.sleep(0.01)
    return model(batch).square().mean() + 0 * passing[0]

def job():
    return legroom.Job(
        model=lambda: nn.Linear(8, 8),
        train_data=lambda: Holding(80, 96),
        valid_data=lambda: Holding(48, 48),
        loss=loss,
        optimizer=lambda model, rate: torch.optim.SGD(model.parameters(), rate),
        baseline=legroom.Settings(batch_size=8, learning_rate=1e-9, num_epochs=1, num_workers=2),
    )
"""
"""What loader processes and evaluations take is planted, and most of it all: how a heap fills with small tensors is
chance, and how often a proof holds for those is benchmarks/host_memory.py's to show."""


def high_water_bytes(pid):
    """The most that a process has held so far, by the kernel's own mark."""
    return int(Path(f"/proc/{pid}/status").read_text().partition("VmHWM:")[2].split()[0]) * 1024


def peak_of_training(tmp_path, job):
    """Bytes of the processes that train, seen from outside amid an evaluation; and the most of the first of them."""
    look = tmp_path / "look"
    command = [sys.executable, "-m", "legroom", "train", job, "--device", "cpu", "--out", tmp_path / "run"]
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes, env={**os.environ, "LOOK": str(look)}) as running:
        while not look.exists():
            assert running.poll() is None, running.stderr.read()
            time.sleep(0.02)
        pids = tree_of(running.pid)[1:]  # without the process that only asks
        together, alone = tree_bytes(pids), high_water_bytes(pids[0])
        while running.poll() is None:
            look.unlink(missing_ok=True)
            time.sleep(0.02)
        assert running.returncode == 0, running.stderr.read()
    return together, alone


def test_a_proof_sees_what_training_takes_with_its_loader_processes_and_evaluations(tmp_path):
    (tmp_path / "holding.py").write_text(HOLDING)
    job = f"{tmp_path / 'holding.py'}:job"
    worker = LocalEngine().start(address_of(job), {}, alone=True)
    try:
        proof = worker.ask(StepPeaks(device="cpu", batch_size=8, num_steps=5, proof=True, num_workers=2))
    finally:
        worker.close()
    together, alone = peak_of_training(tmp_path, job)
    assert proof.training_bytes() + proof.spare_bytes == pytest.approx(together, rel=0.1)
    assert proof.training_bytes() - proof.loader_bytes == pytest.approx(alone, rel=0.1)
    assert proof.loader_bytes > 2 * (96 + 48) * 2**20
    assert {"data", "forward", "backward", "update", "evaluation"} <= set(proof.phase_bytes)


def test_memory_that_grows_with_every_step_is_told_and_nothing_is_called_proved(legroom_here, forking):
    job = f"{JOBS / 'bad/hungry_loader.py'}:leaking"
    answer = legroom_here("memory", job, "--device", "cpu", "--memory", "600MiB", "--json").json
    assert not answer["verified"]
    assert any("grew by 4.0 MiB with every step" in note for note in answer["notes"])


def test_one_json_object_with_the_promised_names_and_the_same_in_words(wide, legroom_here):
    answer, again = wide
    assert set(answer) >= MEMORY_KEYS
    assert answer["verified"]
    assert not answer["estimate"]
    assert answer["data_limit"] == 1500
    assert answer["range"][0] <= answer["max_batch_size"] <= answer["range"][1]
    assert answer["micro_batch_size"] * answer["accumulation_steps"] >= 10_000
    assert all(probe["num_repeats"] >= 3 for probe in answer["probes"])
    told = legroom_here(*again).stdout
    assert "largest training batch" in told
    assert "in a fresh process" in told
    assert f"{answer['max_batch_size']:,}" in told
    with pytest.raises(json.JSONDecodeError):
        json.loads(told)


@pytest.mark.parametrize("name", CONTRACT)
def test_every_kind_of_job_answers_memory(legroom_here, forking, name):
    # Where no budget is named, the search ends at the size of the data; one job has to find the budget's limit.
    hurry = {"slow_store": ("--with", "wait=0"), "wide_layers": ("--memory", "450MiB")}
    ran = legroom_here("memory", f"{JOBS / name}.py:job", *hurry.get(name, ()), "--device", "cpu", "--json")
    assert ran.code == 0, ran.stderr
    assert ran.json["max_batch_size"] >= 2
    assert ran.json["verified"]


def test_uneven_samples_are_answered_for_the_worst_batch_with_the_typical_beside_it(legroom_here, forking):
    answer = legroom_here("memory", f"{JOBS / 'uneven.py'}:job", "--device", "cpu", "--memory", "700MiB", "--json").json
    assert answer["typical_batch_size"] > 1.2 * answer["max_batch_size"]
    assert any("Samples differ in size" in note for note in answer["notes"])


def test_plan_writes_a_plan_people_can_read(legroom_here, forking, tmp_path):
    words = ("plan", f"{JOBS / 'gan.py'}:job", "--device", "cpu", "--out", tmp_path / "o", "--json")
    ran = legroom_here(*words)
    assert ran.code == 0, ran.stderr
    assert set(ran.json) >= PLAN_KEYS
    plan = tomllib.loads((tmp_path / "o" / "plan.toml").read_text())
    assert plan["batch_size"]["value"] == ran.json["batch_size"]
    assert plan["learning_rate"]["because"] == "the job's own"
    assert any("its own step" in sentence for sentence in ran.json["missing"])
    measured = read_lines(tmp_path / "o" / FILE_NAME)[1]
    again = legroom_here(*words, "--resume")
    assert again.json["settings"] == ran.json["settings"]
    assert read_lines(tmp_path / "o" / FILE_NAME)[1] == measured, "something was measured again"


@pytest.mark.parametrize("name", ["lightning_job", "transformers_job", "gan", "carried_state"])
def test_every_kind_of_job_gets_a_plan_for_a_card_that_is_not_here(legroom_here, name):
    ran = legroom_here("plan", f"{JOBS / name}.py:job", "--card", "t4-16gb", "--json")
    assert ran.code == 0, ran.stderr
    evidence = {item["name"]: item["evidence"] for item in ran.json["recommendations"]}
    assert evidence["batch_size"] == ["traced_memory"]


def test_a_plan_splits_a_batch_that_does_not_fit(legroom_here, forking, tmp_path):
    job = tmp_path / "large.py"
    job.write_text(
        f"import dataclasses, legroom, sys\nsys.path.append({str(JOBS)!r})\nfrom wide_layers import job as wide\n"
        "def job():\n    own = legroom.Settings(batch_size=1200)\n"
        "    return dataclasses.replace(wide(), valid_data=None, baseline=own)\n"
    )
    answer = legroom_here("plan", f"{job}:job", "--device", "cpu", "--memory", "400MiB", "--json").json
    assert answer["accumulation_steps"] > 1
    assert answer["batch_size"] * answer["accumulation_steps"] >= 1200


def test_dry_run_lists_probes_and_runs_none(legroom, tmp_path):
    ran = legroom("memory", "digits", "--dry-run", "--json")
    assert len(ran.json["probes"]) == 3
    assert not (tmp_path / "legroom-out").exists()


def test_machine_and_jobs_answer(legroom):
    machine = legroom("machine", "--device", "cpu", "--json").json
    assert machine["host"]["num_cores"] >= 1
    assert machine["speeds"]["cpu"]["copy_bytes_per_second"]["median"] > 1e8
    jobs = legroom("jobs", "--json").json["jobs"]
    assert jobs[0]["name"] == "digits"
    assert jobs[0]["options"]["hidden"] == "128"
