"""A trunk goes on as if nothing had branched off it, and a branch trains as the trunk would have."""

import itertools
import math
import random
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import Dataset, IterableDataset, TensorDataset

import legroom
from legroom.errors import UsageError
from legroom.job import Job, Score, Settings
from legroom.training.branches import Trunk
from legroom.training.records import Train
from legroom.training.schedules import constant, linear, stable

SETTINGS = Settings(batch_size=8, learning_rate=0.05)
JOBS = Path(__file__).parents[1] / "jobs"


class Noisy(Dataset):
    """Lines with noise from every global source at each look, as augmentation draws it."""

    def __len__(self):
        return 50

    def __getitem__(self, index):
        noise = torch.randn(4) + random.random() + float(np.random.rand())
        x = torch.linspace(-1, 1, 4) * (index / 50) + 0.1 * noise
        return x, x.sum().reshape(1)


class Counting(Dataset):
    """Samples that depend on how many were asked for before, and on generators of the data set's own."""

    def __init__(self):
        self.num_asked = 0
        self.sources = random.Random(0)
        self.arrays = np.random.default_rng(0)
        self.old = np.random.RandomState(0)
        self.tensors = torch.Generator().manual_seed(0)

    def __len__(self):
        return 50

    def __getitem__(self, index):
        self.num_asked += 1
        drawn = self.sources.random() + self.arrays.random() + self.old.rand() + self.num_asked / 1000
        x = torch.linspace(-1, 1, 4) * drawn + 0.1 * torch.randn(4, generator=self.tensors)
        return x, x.sum().reshape(1)


class Stream(IterableDataset):
    """Another order and other noise in each epoch."""

    def __iter__(self):
        return (Noisy()[index] for index in torch.randperm(50).tolist())


class EpochStream(IterableDataset):
    """An order that depends on how often it was read."""

    def __init__(self):
        self.num_epochs = 0

    def __iter__(self):
        self.num_epochs += 1
        order = torch.randperm(50, generator=torch.Generator().manual_seed(self.num_epochs))
        return (Noisy()[index] for index in order.tolist())


class Net(nn.Module):
    """Dropout, batch norm, a recurrent layer, a buffer that no state_dict holds, and a generator of its own."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.2), nn.ReLU())
        self.reader = nn.LSTM(8, 8, batch_first=True)
        self.last = nn.Linear(8, 1)
        self.register_buffer("mean", torch.zeros(8), persistent=False)
        self.noise = torch.Generator().manual_seed(0)
        self.num_seen = 0

    def forward(self, x):
        hidden = self.first(x)
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * hidden.detach().mean(0)
            self.num_seen += len(x)
            self.latest = hidden.detach()
        scale = 1 + 0.1 * torch.rand(1, generator=self.noise) + self.num_seen / 1e4
        return self.last(self.reader((hidden - self.mean).unsqueeze(1))[0][:, 0]) * scale


def mean_square(model, batch):
    return nn.functional.mse_loss(model(batch[0]), batch[1])


def near(model, batch):
    return ((model(batch[0]) - batch[1]).abs() < 0.2).sum(), len(batch[0])


def grouped(model, rate):
    others = [*model.reader.parameters(), *model.last.parameters()]
    return torch.optim.SGD([{"params": model.first.parameters()}, {"params": others, "lr": 3 * rate}], rate)


OPTIMIZERS = {
    "momentum": lambda model, rate: torch.optim.SGD(model.parameters(), rate, momentum=0.9),
    "adam": lambda model, rate: torch.optim.Adam(model.parameters(), rate),
    "a rate as a tensor": lambda model, rate: torch.optim.AdamW(model.parameters(), torch.tensor(rate)),
    "two groups": grouped,
}


def make_job(**more):
    fields = {
        "model": Net,
        "train_data": Noisy,
        "valid_data": lambda: TensorDataset(torch.ones(20, 4) / 4, torch.ones(20, 1)),
        "loss": mean_square,
        "optimizer": OPTIMIZERS["adam"],
        "score": Score(near),
        "num_samples": 50,
        "baseline": SETTINGS,
    }
    return Job(**(fields | more))


def make_trunk(job, settings=SETTINGS, device="cpu", **more):
    valid = job.valid_data() if job.valid_data else None
    return Trunk(job, Train(device=device, settings=asdict(settings), **more), job.train_data(), valid)


def assert_undisturbed(job, settings=SETTINGS, parts=(3, 4, 6, 9), device="cpu", **branch):
    """Losses and weights of a trunk are the same with branches and without, across the ends of epochs."""
    plain = make_trunk(job, settings, device)
    expected, losses = plain.advance(sum(parts)), []
    branched = make_trunk(job, settings, device)
    for part in parts:
        branched.branch(**{"schedule": linear(7, 2.0), "num_steps": 7, "evaluate_steps": 3} | branch)
        losses += branched.advance(part)
        branched.branch(**{"schedule": constant(5.0), "num_steps": 5} | branch)
    assert losses == expected
    for ours, theirs in zip(branched.trainer.model.parameters(), plain.trainer.model.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    plain.close()
    branched.close()


@pytest.mark.parametrize("data", [Noisy, Counting, Stream, EpochStream])
@pytest.mark.parametrize("batch", [{}, {"batch_size": 16}, {"batch_size": 4, "accumulation_steps": 3}], ids=str)
def test_a_trunk_goes_on_bit_for_bit(data, batch):
    torch.manual_seed(0)
    assert_undisturbed(make_job(train_data=data), **batch)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_are_put_back(name):
    assert_undisturbed(make_job(optimizer=OPTIMIZERS[name]))


def test_the_loss_scale_is_put_back():
    job = make_job(model=lambda: nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 1)))
    settings = replace(SETTINGS, precision="fp16", clip_norm=1.0)
    assert_undisturbed(job, settings, schedule=constant(1e4))  # gradients overflow, and the scale is halved
    assert_undisturbed(make_job(), replace(SETTINGS, precision="bf16"))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_a_trunk_on_a_gpu_goes_on_bit_for_bit(fused, precision):
    job = make_job(
        model=lambda: nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 1)),
        optimizer=lambda model, rate: torch.optim.Adam(model.parameters(), rate, fused=fused),
    )
    assert_undisturbed(job, replace(SETTINGS, precision=precision), device="cuda", schedule=constant(1e3))


def test_loader_processes_go_on_with_their_own_random_numbers():
    assert_undisturbed(make_job(), replace(SETTINGS, num_workers=2, accumulation_steps=2), parts=(2, 3, 4))


def test_a_scheduler_of_the_jobs_own_goes_on():
    def cycle(optimizer, length):
        return torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=200)

    job = make_job(scheduler=cycle, optimizer=OPTIMIZERS["momentum"])
    assert_undisturbed(job, job.baseline)


def test_an_own_step_keeps_the_gradients_it_gathers():
    def gather(model, optimizer, batch):
        loss = mean_square(model, batch)
        loss.backward()
        model.num_gathered = getattr(model, "num_gathered", 0) + 1
        if model.num_gathered % 3 == 0:
            optimizer.step()
            optimizer.zero_grad()
        return loss

    assert_undisturbed(make_job(loss=None, step=gather))
    with pytest.raises(UsageError, match="cannot accumulate"):
        make_trunk(make_job(loss=None, step=gather)).branch(schedule=constant(1.0), num_steps=1, accumulation_steps=2)


@pytest.mark.parametrize("batch_size", [None, 5, 20])
def test_a_state_carried_from_batch_to_batch_survives_branches_of_any_batch_size(batch_size):
    words = {"num_steps": 2, "evaluate_steps": None, "schedule": constant(0.5), "batch_size": batch_size}
    for address, options in ((f"{JOBS / 'carried_state.py'}:job", {}), ("ptb-small", {"data": "synthetic"})):
        job = legroom.load_job(address, options)
        settings = replace(job.baseline, schedule="constant")
        assert_undisturbed(replace(job, valid_data=None), settings, parts=(2, 2), **words)


@pytest.mark.parametrize("start", [0, 2, 6])
def test_a_branch_at_the_trunks_own_rate_trains_as_the_trunk_would(start):
    trunk = make_trunk(make_job())
    trunk.advance(start)
    (found,) = trunk.branch(schedule=constant(1.0), num_steps=10)
    expected = trunk.advance(10)
    assert found.train_loss == pytest.approx(sum(expected) / 10, rel=1e-12)
    (after,) = trunk.branch(schedule=constant(1.0), num_steps=0)
    assert (found.loss, found.score) == (after.loss, after.score)
    assert (found.step, after.step, after.train_loss) == (10, 0, None)


@pytest.mark.parametrize(("batch_size", "passes"), [(16, 1), (8, 2), (4, 4)])
def test_a_branch_sees_the_samples_that_come_next_whatever_its_batch(batch_size, passes):
    seen = []

    class Watched(Noisy):
        def __getitem__(self, index):
            seen.append(index)
            return super().__getitem__(index)

    trunk = make_trunk(make_job(train_data=Watched, valid_data=None, score=None))
    trunk.advance(2)
    seen.clear()
    trunk.branch(schedule=constant(1.0), num_steps=1, batch_size=batch_size, accumulation_steps=passes)
    branch = list(seen)
    seen.clear()
    trunk.advance(2)
    assert branch == seen


def test_a_branch_that_has_no_whole_batch_left_begins_the_next_epoch():
    trunk = make_trunk(make_job())
    trunk.advance(3)
    (found,) = trunk.branch(schedule=constant(1.0), num_steps=2, batch_size=32)
    assert (found.step, found.epoch) == (2, 2.0)


def test_evaluations_come_every_so_many_updates_and_after_the_last():
    trunk = make_trunk(make_job())
    found = trunk.branch(schedule=stable(7, 1.0), num_steps=7, evaluate_steps=3)
    assert [evaluation.step for evaluation in found] == [3, 6, 7]
    assert all(math.isfinite(evaluation.loss) and evaluation.score is not None for evaluation in found)
    assert [low.seconds <= high.seconds for low, high in itertools.pairwise(found)] == [True, True]


def test_branches_differ_by_their_rate_alone():
    trunk = make_trunk(make_job())
    trunk.advance(2)
    loss = {
        factor: [trunk.branch(schedule=constant(factor), num_steps=6)[-1].loss for _ in range(2)]
        for factor in (0.0, 1.0, 3.0)
    }
    assert all(first == second for first, second in loss.values())
    assert len({first for first, _ in loss.values()}) == 3
    (now,) = trunk.branch(schedule=constant(1.0), num_steps=0)
    (still,) = trunk.branch(schedule=constant(0.0), num_steps=1)
    assert now.step == 0
    assert still.train_loss == pytest.approx(trunk.advance(1)[0])


def test_the_schedule_multiplies_the_rate_of_each_group_from_the_branchs_first_step_on():
    rates = []

    class Told(torch.optim.SGD):
        def step(self, closure=None):
            rates.append([group["lr"] for group in self.param_groups])
            return super().step(closure)

    def told(model, rate):
        return Told([{"params": model.first.parameters()}, {"params": model.last.parameters(), "lr": 10 * rate}], rate)

    trunk = make_trunk(make_job(optimizer=told), replace(SETTINGS, warmup_steps=4))
    trunk.advance(2)
    rates.clear()
    trunk.branch(schedule=linear(4, 2.0), num_steps=4)
    assert rates == [pytest.approx([0.05 * factor, 0.5 * factor]) for factor in (2.0, 1.5, 1.0, 0.5)]
    rates.clear()
    trunk.advance(1)
    assert rates == [pytest.approx([0.05 * 2 / 4, 0.5 * 2 / 4])]


def test_a_branch_that_diverges_ends_and_the_trunk_does_not():
    trunk = make_trunk(make_job(optimizer=OPTIMIZERS["momentum"]))
    before = trunk.advance(3)
    found = trunk.branch(schedule=constant(1e20), num_steps=1000, evaluate_steps=500)
    assert len(found) == 1
    assert found[0].step < 1000
    assert (found[0].loss, found[0].score, found[0].train_loss) == (None, None, math.inf)
    assert before + trunk.advance(3) == make_trunk(make_job(optimizer=OPTIMIZERS["momentum"])).advance(6)


def test_a_branch_that_raises_leaves_the_trunk_as_it_was():
    def fragile(model, batch):
        if len(batch[0]) == 16 and model.training and model.num_seen > 100:
            raise MemoryError
        return mean_square(model, batch)

    trunk = make_trunk(make_job(loss=fragile))
    before = trunk.advance(3)
    with pytest.raises(MemoryError):
        trunk.branch(schedule=constant(1.0), num_steps=20, batch_size=16)
    with pytest.raises(UsageError, match="fewer than one batch of 64"):
        trunk.branch(schedule=constant(1.0), num_steps=20, batch_size=64)
    assert before + trunk.advance(3) == make_trunk(make_job(loss=fragile)).advance(6)


def test_a_trunk_may_be_put_back_to_an_earlier_state_as_often_as_wanted():
    trunk = make_trunk(make_job(train_data=Stream))
    trunk.advance(4)
    kept = trunk.trainer.state().copied()
    expected = trunk.advance(5)
    for _ in range(2):
        trunk.trainer.restore(kept.copied())
        assert trunk.advance(5) == expected


def test_a_job_that_hides_its_optimizers_is_refused():
    job = legroom.load_job(f"{JOBS / 'gan.py'}:job")
    with pytest.raises(UsageError, match="keeps its optimizers to itself"):
        make_trunk(job, job.baseline)


def test_signs_of_life_are_given():
    said = []
    job = make_job()
    request = Train(device="cpu", settings=asdict(SETTINGS))
    trunk = Trunk(job, request, job.train_data(), job.valid_data(), beat=lambda what, share: said.append(what))
    trunk.advance(3)
    trunk.branch(schedule=constant(1.0), num_steps=2)
    assert said == ["training"] * 5 + ["evaluating"] * 3
