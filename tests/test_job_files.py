"""Every job file and every example is a job that trains and evaluates."""

import itertools
import math
import sys
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader

import legroom
from legroom.training.evaluation import evaluate
from legroom.training.step import TrainingStep

ROOT = Path(__file__).parent.parent
FILES = [
    path
    for folder in ("tests/jobs", "examples")
    for path in sorted((ROOT / folder).glob("*.py"))
    if path.stem != "conftest" and "on_ranks" not in path.stem
]
CPU = torch.device("cpu")


@pytest.fixture
def load(monkeypatch):
    """Loads a job file as if no other had been: two files may share a name."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    loaded = []

    def load_one(path):
        loaded.append(path.stem)
        sys.modules.pop(path.stem, None)  # of a test before this one
        return legroom.load_job(f"{path}:job")

    yield load_one
    for name in loaded:
        sys.modules.pop(name, None)


def batches_of(job, dataset, num_batches):
    if job.loader is not None:
        return itertools.islice(job.loader(dataset, job.baseline), num_batches)
    loader = DataLoader(dataset, batch_size=job.baseline.batch_size, collate_fn=job.collate)
    return itertools.islice(loader, num_batches)


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_job_file_trains_three_steps_and_evaluates(load, path):
    job = load(path)
    model = job.model().train()
    before = [parameter.detach().clone() for parameter in model.parameters()]
    step = TrainingStep(job, model, job.optimizer(model, job.baseline.learning_rate), job.baseline, CPU)
    losses = [step([batch]).item() for batch in batches_of(job, job.train_data(), 3)]
    assert len(losses) == 3
    assert all(math.isfinite(loss) for loss in losses)
    changed = [not torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True)]
    trainable = [parameter.requires_grad for parameter in model.parameters()]
    # An embedding of one row (Bert's token types) and the like may stay; nothing frozen may move.
    assert any(changed)
    assert all(may for did, may in zip(changed, trainable, strict=True) if did)
    held_out = (job.valid_data or job.train_data)()
    result = evaluate(job, model, batches_of(job, held_out, 2), CPU, "fp32")
    assert (result.loss is None) == (job.loss is None)
    assert (result.score is None) == (job.score is None)


def test_carried_state_crosses_batches_and_starts_anew_at_the_first(load):
    job = load(ROOT / "tests" / "jobs" / "carried_state.py")
    model = job.model()
    first, second = batches_of(job, job.train_data(), 2)
    fresh = job.loss(model, first)[0]
    carried = job.loss(model, second)[0]
    assert first["first"]
    assert not second["first"]
    assert carried != job.loss(model, {**second, "first": True})[0]
    assert fresh == job.loss(model, first)[0]


def test_examples_are_short():
    lengths = {path.name: len(path.read_text().splitlines()) for path in FILES if path.parent.name == "examples"}
    assert lengths.pop("plain.py") <= 60
    assert max(lengths.values()) <= 100
