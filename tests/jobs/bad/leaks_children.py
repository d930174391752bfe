"""Forks a process that sleeps and is never waited for, as a data loader does that nobody closes."""

import os
import time

import torch
from torch import nn
from torch.utils.data import TensorDataset

import legroom


def make_data():
    if os.fork() == 0:  # the fork holds every pipe its parent had
        time.sleep(10**6)
        os._exit(0)
    return TensorDataset(torch.randn(256, 8))


def job() -> legroom.Job:
    return legroom.Job(
        model=lambda: nn.Linear(8, 8),
        train_data=make_data,
        loss=lambda model, batch: nn.functional.mse_loss(model(batch[0]), batch[0]),
        optimizer=lambda model, rate: torch.optim.SGD(model.parameters(), rate),
    )
