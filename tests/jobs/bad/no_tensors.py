"""A batch is a list of strings: there is nothing to move to the device and nothing to measure."""

import torch
from torch import nn

import legroom


def job() -> legroom.Job:
    return legroom.Job(
        model=lambda: nn.Linear(8, 8),
        train_data=lambda: ["some", "words", "without", "numbers"] * 16,
        loss=lambda model, batch: model(torch.ones(len(batch), 8)).mean(),
        optimizer=lambda model, rate: torch.optim.SGD(model.parameters(), rate),
    )
