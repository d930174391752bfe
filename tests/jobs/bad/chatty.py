"""Prints without end: beside a normal step (job), or in a step that never returns (forever)."""

import sys
import threading

import torch
from torch import nn
from torch.utils.data import TensorDataset

import legroom


def talk():
    while True:
        print("all is well, " * 20)
        print("still well, " * 20, file=sys.stderr)


def make_talking_model():
    threading.Thread(target=talk, daemon=True).start()
    return nn.Linear(8, 8)


def loss(model, batch):
    return nn.functional.mse_loss(model(batch[0]), batch[0])


def make_job(model, loss) -> legroom.Job:
    return legroom.Job(
        model=model,
        train_data=lambda: TensorDataset(torch.randn(256, 8)),
        loss=loss,
        optimizer=lambda model, rate: torch.optim.SGD(model.parameters(), rate),
    )


def job() -> legroom.Job:
    return make_job(make_talking_model, loss)


def forever() -> legroom.Job:
    return make_job(lambda: nn.Linear(8, 8), lambda model, batch: talk())
