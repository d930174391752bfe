"""The schedulers of a LightningModule move the rates of a run as they do under a Trainer, resumed or not."""

import importlib
import warnings
from dataclasses import asdict, replace

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler as torch_schedulers
from torch.utils.data import DataLoader, TensorDataset

from legroom.adapters.lightning import from_lightning
from legroom.errors import UsageError
from legroom.training.loop import Run
from legroom.training.records import Train

pl = importlib.import_module("pytorch_lightning")
SILENT = {
    "accelerator": "cpu", "logger": False, "enable_checkpointing": False, "enable_progress_bar": False,
    "enable_model_summary": False,
}  # fmt: skip


def loader():
    random = torch.Generator().manual_seed(0)
    rows = TensorDataset(torch.randn(48, 4, generator=random), torch.randn(48, 1, generator=random))
    return DataLoader(rows, batch_size=6, shuffle=True)


def step_by(make, frequency=1):
    return lambda module, optimizer: {"scheduler": make(module, optimizer), "interval": "step", "frequency": frequency}


def warm_up_then_cosine(module, optimizer):
    climb = torch_schedulers.LinearLR(optimizer, start_factor=0.1, total_iters=4)
    return torch_schedulers.SequentialLR(
        optimizer, [climb, torch_schedulers.CosineAnnealingLR(optimizer, T_max=20, eta_min=1e-3)], milestones=[4]
    )


def chained(module, optimizer):
    parts = [torch_schedulers.ConstantLR(optimizer, factor=0.5), torch_schedulers.ExponentialLR(optimizer, 0.9)]
    return torch_schedulers.ChainedScheduler(parts, optimizer)


SCHEDULERS = {
    "lambda by step": step_by(lambda module, optimizer: torch_schedulers.LambdaLR(optimizer, lambda i: (i + 1) / 30)),
    "one cycle over the run": step_by(
        lambda module, optimizer: torch_schedulers.OneCycleLR(
            optimizer, max_lr=0.3, total_steps=module.trainer.estimated_stepping_batches
        )
    ),
    "cosine by epoch": lambda module, optimizer: torch_schedulers.CosineAnnealingLR(
        optimizer, T_max=module.trainer.max_epochs, eta_min=1e-3
    ),
    "warm-up, then cosine": step_by(warm_up_then_cosine),
    "every third batch": step_by(lambda module, optimizer: torch_schedulers.StepLR(optimizer, 1, gamma=0.5), 3),
    "every second epoch": lambda module, optimizer: {
        "scheduler": torch_schedulers.MultiStepLR(optimizer, [1, 2], gamma=0.1),
        "frequency": 2,
    },
    "restarts": step_by(lambda module, optimizer: torch_schedulers.CosineAnnealingWarmRestarts(optimizer, T_0=5)),
    "cyclic": step_by(lambda module, optimizer: torch_schedulers.CyclicLR(optimizer, 0.01, 0.2, step_size_up=3)),
    "chained": step_by(chained),
}


def make_module(schedule, seen, lr=0.1):
    class Line(pl.LightningModule):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.layer = nn.Linear(4, 1)

        def training_step(self, batch, batch_idx):
            return nn.functional.mse_loss(self.layer(batch[0]), batch[1])

        def configure_optimizers(self):
            groups = [{"params": [self.layer.weight], "lr": lr / 2}, {"params": [self.layer.bias]}]
            optimizer = torch.optim.SGD(groups, lr=lr, momentum=0.9)
            optimizer.register_step_pre_hook(
                lambda each, *_: seen.append([(group["lr"], group["momentum"]) for group in each.param_groups])
            )
            return [optimizer], [schedule(self, optimizer)]

    return Line


def rates_of_a_trainer(schedule, **arguments):
    seen = []
    with warnings.catch_warnings(action="ignore"):
        pl.Trainer(**SILENT, **arguments).fit(make_module(schedule, seen)(), loader())
    return seen


def run_of(schedule, seen, arguments, interrupted=lambda: False, settings=None, **more):
    job = from_lightning(make_module(schedule, seen), train_data=loader, arguments=arguments)
    chosen = replace(job.baseline, **(settings or {}))
    return Run(
        job, Train(device="cpu", settings=asdict(chosen), **more), job.train_data(), None, interrupted=interrupted
    )


@pytest.mark.parametrize("accumulation", [1, 3])
@pytest.mark.parametrize("name", SCHEDULERS)
def test_the_rates_of_every_update_equal_those_of_a_trainer(name, accumulation):
    arguments = {"max_epochs": 4, "accumulate_grad_batches": accumulation}
    seen = []
    run_of(SCHEDULERS[name], seen, arguments).go()
    theirs = rates_of_a_trainer(SCHEDULERS[name], **arguments)
    assert len({str(rates) for rates in theirs}) > 1
    assert seen == theirs


def test_several_schedulers_of_one_optimizer_all_step():
    both = [SCHEDULERS["lambda by step"], SCHEDULERS["cosine by epoch"]]

    def module(seen):
        made = make_module(both[0], seen)
        one = made.configure_optimizers
        made.configure_optimizers = lambda self: (
            (lists := one(self))[0], [*lists[1], both[1](self, lists[0][0])]
        )  # fmt: skip
        return made

    theirs, ours = [], []
    with warnings.catch_warnings(action="ignore"):
        pl.Trainer(**SILENT, max_epochs=3).fit(module(theirs)(), loader())
    job = from_lightning(module(ours), train_data=loader, arguments={"max_epochs": 3})
    Run(job, Train(device="cpu", settings=asdict(job.baseline)), job.train_data(), None).go()
    assert ours == theirs


@pytest.mark.parametrize("name", SCHEDULERS)
@pytest.mark.parametrize("calls", [5, 9])
def test_a_resumed_run_has_the_rates_it_would_have_had(tmp_path, name, calls):
    arguments, whole, broken = {"max_epochs": 3, "accumulate_grad_batches": 2}, [], []
    run_of(SCHEDULERS[name], whole, arguments).go()
    countdown = iter([False] * calls + [True] * 100)
    first = run_of(SCHEDULERS[name], broken, arguments, lambda: next(countdown), folder=str(tmp_path)).go()
    assert 0 < first.num_steps < len(whole)
    again = run_of(SCHEDULERS[name], broken, arguments, folder=str(tmp_path), resume=True).go()
    assert again.resumed_from == first.num_steps
    assert broken == whole


def test_another_length_makes_another_schedule():
    seen = []
    schedule, settings = SCHEDULERS["one cycle over the run"], {"batch_size": 12, "num_epochs": 5}
    run_of(schedule, seen, {"max_epochs": 3}, settings=settings).go()
    run_of(schedule, in_steps := [], {"max_epochs": 3}, num_steps=20).go()
    assert seen == in_steps == rates_of_a_trainer(schedule, max_steps=20)


def test_another_rate_scales_the_whole_schedule_and_leaves_momentum():
    schedule, arguments = SCHEDULERS["one cycle over the run"], {"max_epochs": 2}
    run_of(schedule, plain := [], arguments).go()
    run_of(schedule, scaled := [], arguments, settings={"learning_rate": 0.6}).go()
    for ours, theirs in zip(scaled, plain, strict=True):
        assert [rate for rate, _ in ours] == pytest.approx([2 * rate for rate, _ in theirs])
        assert [momentum for _, momentum in ours] == [momentum for _, momentum in theirs]


def test_the_baseline_says_that_the_schedule_is_the_modules_own():
    job = from_lightning(make_module(SCHEDULERS["chained"], []), train_data=loader)
    assert (job.baseline.schedule, job.baseline.learning_rate) == ("own", 0.1)
    told = from_lightning(make_module(SCHEDULERS["chained"], []), train_data=loader, learning_rate=0.2)
    assert (told.baseline.schedule, told.baseline.learning_rate) == ("own", 0.2)
    other = from_lightning(
        make_module(SCHEDULERS["chained"], []), train_data=loader,
        optimizer=lambda module, rate: torch.optim.SGD(module.parameters(), rate),
    )  # fmt: skip
    assert (other.baseline.schedule, other.scheduler) == ("constant", None)


def test_a_schedule_named_for_the_run_goes_before_the_modules_own_and_that_is_said():
    seen = []
    done = run_of(SCHEDULERS["chained"], seen, {}, settings={"schedule": "constant"}).go()
    assert {rate for rates in seen for rate, _ in rates} == {0.1, 0.05}
    assert any("'constant', named for this run, moved the rate" in note for note in done.notes)
    assert run_of(SCHEDULERS["chained"], seen, {}).go().notes == []


def test_a_schedule_named_for_the_run_leaves_the_optimizers_own_momentum():
    seen = []
    run_of(SCHEDULERS["one cycle over the run"], seen, {}, settings={"schedule": "linear"}).go()
    assert {momentum for rates in seen for _, momentum in rates} == {0.9}


def test_a_scheduler_that_waits_for_a_metric_is_refused_with_the_way_out():
    def plateau(module, optimizer):
        return {"scheduler": torch_schedulers.ReduceLROnPlateau(optimizer), "monitor": "val_loss"}

    with pytest.raises(UsageError, match=r"ReduceLROnPlateau, which waits for the metric 'val_loss'.*--schedule"):
        run_of(plateau, [], {})
    assert run_of(plateau, [], {}, settings={"schedule": "cosine"}).go().num_steps == 8


def test_an_own_lr_scheduler_step_is_refused_with_the_way_out():
    module = make_module(SCHEDULERS["chained"], [])
    module.lr_scheduler_step = lambda self, scheduler, metric: None
    job = from_lightning(module, train_data=loader)
    with pytest.raises(UsageError, match=r"its own lr_scheduler_step.*--schedule"):
        Run(job, Train(device="cpu", settings=asdict(job.baseline)), job.train_data(), None)
