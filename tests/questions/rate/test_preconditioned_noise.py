"""The noise scale as Adam feels it, on a quadratic whose gradients and their variances are known."""

from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from legroom.child.built_job import BuiltJob
from legroom.job import Settings
from legroom.job_address import JobAddress
from legroom.questions.rate.child import grow_trunk
from legroom.questions.rate.noise_scale import GradientSquares, noise_scale
from legroom.questions.rate.records import GrowTrunk

PLAIN = Path(__file__).parents[2] / "jobs" / "plain.py"
BATCH = 16
BEND = torch.tensor([10.0] + [0.1] * 100)
"""Of the loss: one direction is steep and noisy, a hundred are flat and calm."""
SPREAD = torch.tensor([10.0] + [0.1] * 100)
SQUARES, NOISE = BEND**2, (BEND * SPREAD) ** 2
"""Of the gradient without noise at weights of 1, and of one sample's."""


class Quadratic(nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = nn.Parameter(torch.ones(101))


def make_data():
    random = torch.Generator().manual_seed(0)
    return TensorDataset(SPREAD * torch.randn(8192, 101, generator=random))


def loss(model, batch):
    return (0.5 * BEND * (model.weights - batch[0]) ** 2).sum(1).mean()


@pytest.fixture
def built():
    made = BuiltJob(JobAddress(text=f"{PLAIN}:job"))
    quadratic = {"model": Quadratic, "train_data": make_data, "valid_data": make_data, "loss": loss, "score": None}
    made.__dict__["job"] = replace(made.job, **quadratic)
    return made


def seen_scale(built, optimizer):
    """What gradients tell while the weights stay, after the optimizer's averages have settled."""
    built.__dict__["job"] = replace(built.job, optimizer=lambda model, rate: optimizer(model.parameters(), rate))
    settings = asdict(Settings(batch_size=BATCH, learning_rate=1e-9, warmup_steps=200, num_epochs=9))
    grown = grow_trunk(GrowTrunk(device="cpu", settings=settings, to_step=2000), built)
    small, big = grown.noise_sizes
    seen = GradientSquares(small_size=small, big_size=big, small=grown.small_squares, big=grown.big_squares)
    return noise_scale([seen]).batch_size


def test_adam_weighs_each_direction_by_its_root_mean_square(built):
    root = torch.sqrt(SQUARES + NOISE / BATCH)
    weighed = float((NOISE / root).sum() / (SQUARES / root).sum())
    plain = float(NOISE.sum() / SQUARES.sum())
    assert plain > 3 * weighed
    assert seen_scale(built, torch.optim.Adam) == pytest.approx(weighed, rel=0.4)
