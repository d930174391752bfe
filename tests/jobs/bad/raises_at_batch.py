"""The loss raises for batches above 64: a limit of the user's code, not of memory."""

import torch
from torch import nn
from torch.utils.data import TensorDataset

import legroom


def loss(model, batch):
    if len(batch[0]) > 64:
        raise ValueError(f"this layer takes at most 64 samples, got {len(batch[0])}")
    return nn.functional.mse_loss(model(batch[0]), batch[0])


def job() -> legroom.Job:
    return legroom.Job(
        model=lambda: nn.Linear(8, 8),
        train_data=lambda: TensorDataset(torch.randn(256, 8)),
        loss=loss,
        optimizer=lambda model, rate: torch.optim.SGD(model.parameters(), rate),
    )
