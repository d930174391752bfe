"""The model factory raises."""

import torch
from torch import nn
from torch.utils.data import TensorDataset

import legroom


def make_model():
    raise RuntimeError("the weights are not where they should be")


def job() -> legroom.Job:
    return legroom.Job(
        model=make_model,
        train_data=lambda: TensorDataset(torch.randn(64, 8)),
        loss=lambda model, batch: nn.functional.mse_loss(model(batch[0]), batch[0]),
        optimizer=lambda model, rate: torch.optim.SGD(model.parameters(), rate),
    )
