"""A job whose batches a loader of its own makes."""

import torch
from torch import nn
from torch.utils.data import TensorDataset

import legroom


def make_data(num_samples, seed):
    random = torch.Generator().manual_seed(seed)
    inputs = torch.randn(num_samples, 32, generator=random)
    return TensorDataset(inputs, inputs[:, :4].argmax(1))


def shuffled(dataset, settings):
    order = torch.randperm(len(dataset))
    for start in range(0, len(order) - settings.batch_size + 1, settings.batch_size):
        yield dataset[order[start : start + settings.batch_size]]


def loss(model, batch):
    return nn.functional.cross_entropy(model(batch[0]), batch[1]), len(batch[1])


def job() -> legroom.Job:
    return legroom.Job(
        model=lambda: nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4)),
        train_data=lambda: make_data(512, seed=0),
        valid_data=lambda: make_data(128, seed=1),
        loader=shuffled,
        loss=loss,
        optimizer=lambda model, rate: torch.optim.SGD(model.parameters(), rate, momentum=0.9),
        baseline=legroom.Settings(batch_size=16, learning_rate=0.1, num_epochs=2),
    )
