"""The loss ends the process as a crash in native code does."""

import os
import signal

import torch
from torch import nn
from torch.utils.data import TensorDataset

import legroom


def loss(model, batch):
    os.kill(os.getpid(), signal.SIGSEGV)


def job() -> legroom.Job:
    return legroom.Job(
        model=lambda: nn.Linear(8, 8),
        train_data=lambda: TensorDataset(torch.randn(256, 8)),
        loss=loss,
        optimizer=lambda model, rate: torch.optim.SGD(model.parameters(), rate),
    )
