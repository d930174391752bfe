"""Checkpoints: what an earlier run left behind never becomes part of a later one."""

import json
from dataclasses import asdict

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from legroom.job import Job, Settings
from legroom.records.training import Train
from legroom.training.loop import Run

SETTINGS = Settings(batch_size=4, learning_rate=0.1, num_epochs=4)


def points(num_samples):
    inputs = torch.linspace(-1, 1, 2 * num_samples).reshape(-1, 2)
    return TensorDataset(inputs, inputs.sum(1, keepdim=True))


def make_run(folder, *, dies_at=None, **more):
    """A run of 16 updates that raises in the given one."""
    num_losses = 0

    def loss(model, batch):
        nonlocal num_losses
        num_losses += model.training
        if num_losses == dies_at:
            raise KeyboardInterrupt
        return nn.functional.mse_loss(model(batch[0]), batch[1])

    job = Job(
        model=lambda: nn.Linear(2, 1),
        train_data=lambda: points(16),
        loss=loss,
        optimizer=lambda model, rate: torch.optim.SGD(model.parameters(), rate),
    )
    request = Train(device="cpu", settings=asdict(SETTINGS), folder=str(folder), **more)
    return Run(job, request, points(16), points(8))


def test_a_run_begun_anew_and_killed_early_does_not_resume_the_run_before(tmp_path):
    make_run(tmp_path).go()
    with pytest.raises(KeyboardInterrupt):
        make_run(tmp_path, dies_at=2).go()
    result = make_run(tmp_path, resume=True).go()
    assert result.resumed_from is None
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert len([value for line in lines for value in line.get("losses", [])]) == result.num_steps == 16


def test_files_of_a_run_can_be_read_by_whoever_may_read_new_files(tmp_path):
    make_run(tmp_path).go()
    (tmp_path / "other").touch()
    modes = {name: (tmp_path / name).stat().st_mode for name in ("checkpoint.pt", "best.pt", "metrics.jsonl", "other")}
    assert len(set(modes.values())) == 1, modes
