"""Some samples, or what collate makes of them, are no numbers."""

from typing import Literal

import torch
from torch import nn
from torch.utils.data import TensorDataset, default_collate

import legroom


def divide(samples):
    inputs, labels = default_collate(samples)
    return inputs / torch.zeros(()), labels


def job(where: Literal["samples", "collate"] = "samples") -> legroom.Job:
    inputs = torch.rand(200, 4)
    if where == "samples":
        inputs[7::50] = float("nan")
    return legroom.Job(
        model=lambda: nn.Linear(4, 3),
        train_data=lambda: TensorDataset(inputs, torch.randint(3, (200,))),
        loss=lambda model, batch: nn.functional.cross_entropy(model(batch[0]), batch[1]),
        optimizer=lambda model, rate: torch.optim.SGD(model.parameters(), rate),
        collate=divide if where == "collate" else None,
        baseline=legroom.Settings(batch_size=16),
    )
