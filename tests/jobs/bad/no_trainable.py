"""Every parameter is frozen, so there is nothing to train."""

import torch
from torch import nn
from torch.utils.data import TensorDataset

import legroom


def job() -> legroom.Job:
    return legroom.Job(
        model=lambda: nn.Linear(8, 8).requires_grad_(False),
        train_data=lambda: TensorDataset(torch.randn(64, 8)),
        loss=lambda model, batch: nn.functional.mse_loss(model(batch[0]), batch[0]),
        optimizer=lambda model, rate: torch.optim.SGD(model.parameters(), rate),
    )
