"""Two networks against each other: two optimizers and an update of its own, through `step`."""

import torch
from torch import nn
from torch.utils.data import TensorDataset

import legroom

NUM_NOISE = 8


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.generator = nn.Sequential(nn.Linear(NUM_NOISE, 32), nn.ReLU(), nn.Linear(32, 2))
        self.discriminator = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 1))


def make_data():
    angles = torch.linspace(0, 6.28, 256)
    return TensorDataset(torch.stack([angles.cos(), angles.sin()], 1))


def make_optimizers(pair, rate):
    return {
        "generator": torch.optim.Adam(pair.generator.parameters(), rate),
        "discriminator": torch.optim.Adam(pair.discriminator.parameters(), rate),
    }


def judge(scores, real):
    return nn.functional.binary_cross_entropy_with_logits(scores, torch.full_like(scores, float(real)))


def step(pair, optimizers, batch):
    (real,) = batch
    fake = pair.generator(torch.randn(len(real), NUM_NOISE, device=real.device))
    told_apart = judge(pair.discriminator(real), True) + judge(pair.discriminator(fake.detach()), False)
    update(optimizers["discriminator"], told_apart)
    fooled = judge(pair.discriminator(fake), True)
    update(optimizers["generator"], fooled)
    return fooled


def update(optimizer, loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def job() -> legroom.Job:
    return legroom.Job(
        model=Pair,
        train_data=make_data,
        optimizer=make_optimizers,
        step=step,
        baseline=legroom.Settings(batch_size=16, learning_rate=2e-4),
    )
