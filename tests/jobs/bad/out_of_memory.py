"""The loss takes ever more memory, and touches it, until somebody ends the process."""

import itertools

import torch
from torch import nn
from torch.utils.data import TensorDataset

import legroom


def loss(model, batch):
    hoard = []
    for _ in itertools.count():
        hoard.append(torch.ones(4 * 2**20))  # 16 MiB, written and so resident
    return model(batch[0]).mean() * len(hoard)


def job() -> legroom.Job:
    return legroom.Job(
        model=lambda: nn.Linear(8, 8),
        train_data=lambda: TensorDataset(torch.randn(256, 8)),
        loss=loss,
        optimizer=lambda model, rate: torch.optim.SGD(model.parameters(), rate),
    )
