"""A job whose few samples take much memory: 64 numbers become 4,096 in several layers."""

import torch
from torch import nn
from torch.utils.data import TensorDataset

import legroom


def make_model():
    wide = (nn.Linear(64, 4096), nn.ReLU(), nn.LeakyReLU(), nn.ReLU(), nn.LeakyReLU())
    return nn.Sequential(*wide, nn.Linear(4096, 4))


def make_data(num_samples, seed):
    inputs = torch.randn(num_samples, 64, generator=torch.Generator().manual_seed(seed))
    return TensorDataset(inputs, inputs[:, :4].argmax(1))


def loss(model, batch):
    inputs, labels = batch
    return nn.functional.cross_entropy(model(inputs), labels)


def job() -> legroom.Job:
    return legroom.Job(
        model=make_model,
        train_data=lambda: make_data(1500, seed=0),
        valid_data=lambda: make_data(128, seed=1),
        loss=loss,
        optimizer=lambda model, rate: torch.optim.SGD(model.parameters(), rate, momentum=0.9),
        baseline=legroom.Settings(batch_size=16, learning_rate=0.1),
    )
