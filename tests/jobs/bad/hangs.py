"""The loss never returns."""

import time

import torch
from torch import nn
from torch.utils.data import TensorDataset

import legroom


def loss(model, batch):
    time.sleep(10**6)


def job() -> legroom.Job:
    return legroom.Job(
        model=lambda: nn.Linear(8, 8),
        train_data=lambda: TensorDataset(torch.randn(256, 8)),
        loss=loss,
        optimizer=lambda model, rate: torch.optim.SGD(model.parameters(), rate),
    )
