"""The loss is not a number from the first step on."""

import torch
from torch import nn
from torch.utils.data import TensorDataset

import legroom


def job() -> legroom.Job:
    return legroom.Job(
        model=lambda: nn.Linear(8, 8),
        train_data=lambda: TensorDataset(torch.randn(64, 8)),
        loss=lambda model, batch: model(batch[0]).mean() * float("nan"),
        optimizer=lambda model, rate: torch.optim.SGD(model.parameters(), rate),
    )
