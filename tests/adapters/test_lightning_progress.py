"""A LightningModule reads the same global_step and current_epoch as under a Trainer, and hooks left out are named."""

import importlib
import warnings
from dataclasses import asdict

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from legroom.adapters.lightning import from_lightning
from legroom.training.branches import Trunk
from legroom.training.loop import Run
from legroom.training.records import Train

pl = importlib.import_module("pytorch_lightning")
SILENT = {
    "accelerator": "cpu", "logger": False, "enable_checkpointing": False, "enable_progress_bar": False,
    "enable_model_summary": False, "num_sanity_val_steps": 0,
}  # fmt: skip


def rows():
    return TensorDataset(torch.ones(44, 4), torch.ones(44, 1))


def loader():
    return DataLoader(rows(), batch_size=6, drop_last=True)


def valid_loader():
    return DataLoader(rows(), batch_size=6)


def make_module(seen, **methods):
    class Annealed(pl.LightningModule):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.layer = nn.Linear(4, 1)

        def training_step(self, batch, batch_idx):
            seen.append(("train", self.global_step, self.current_epoch))
            return nn.functional.mse_loss(self.layer(batch[0]), batch[1]) / (1 + self.global_step)

        def validation_step(self, batch, batch_idx):
            seen.append(("validate", self.global_step, self.current_epoch))
            return self.layer(batch[0]).mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.01)

    return type("Annealed", (Annealed,), methods)


def job_of(module, **arguments):
    return from_lightning(module, train_data=loader, valid_data=valid_loader, arguments=arguments)


def run_of(seen, interrupted=lambda: False, arguments=None, **more):
    job = job_of(make_module(seen), **(arguments or {}))
    request = Train(device="cpu", settings=asdict(job.baseline), **more)
    return Run(job, request, job.train_data(), job.valid_data(), interrupted=interrupted)


@pytest.mark.parametrize("accumulation", [1, 3])
def test_every_step_sees_the_updates_and_epochs_that_it_sees_under_a_trainer(accumulation):
    arguments = {"max_epochs": 3, "accumulate_grad_batches": accumulation}
    theirs, ours = [], []
    with warnings.catch_warnings(action="ignore"):
        pl.Trainer(**SILENT, **arguments).fit(make_module(theirs)(), loader(), valid_loader())
    run_of(ours, arguments=arguments).go()
    assert theirs[-1][2] == 2
    assert ours == theirs


def test_a_resumed_run_goes_on_counting(tmp_path):
    arguments, whole, broken = {"max_epochs": 3}, [], []
    run_of(whole, arguments=arguments).go()
    countdown = iter([False] * 9 + [True] * 100)
    assert run_of(broken, lambda: next(countdown), arguments, folder=str(tmp_path)).go().num_steps < 21
    run_of(broken, arguments=arguments, folder=str(tmp_path), resume=True).go()
    assert broken == whole


def test_a_branch_counts_on_from_its_trunk_and_the_trunk_from_where_it_was():
    seen = []
    job = job_of(make_module(seen), max_epochs=9)
    trunk = Trunk(job, Train(device="cpu", settings=asdict(job.baseline), num_steps=40), job.train_data(), None)
    trunk.advance(3)
    trunk.branch(schedule=lambda now: 1.0, num_steps=2)
    trunk.advance(1)
    trunk.close()
    assert [step for kind, step, _ in seen if kind == "train"] == [0, 1, 2, 3, 4, 3]


def test_hooks_that_nobody_will_call_are_named():
    def nothing(self, *rest):
        return None

    hooks = {"on_train_batch_end": nothing, "on_after_backward": nothing, "on_validation_epoch_end": nothing}
    (note,) = job_of(make_module([], **hooks)).notes
    assert note.startswith(
        "Hooks of Annealed that a Trainer calls and legroom's loop does not: on_train_batch_end, on_after_backward, "
        "on_validation_epoch_end."
    )
    assert job_of(make_module([])).notes == ()
