"""The loss ends the process without a word."""

import os

import torch
from torch import nn
from torch.utils.data import TensorDataset

import legroom


def loss(model, batch):
    os._exit(3)


def job() -> legroom.Job:
    return legroom.Job(
        model=lambda: nn.Linear(8, 8),
        train_data=lambda: TensorDataset(torch.randn(256, 8)),
        loss=loss,
        optimizer=lambda model, rate: torch.optim.SGD(model.parameters(), rate),
    )
