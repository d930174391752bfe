"""A small network over rows of numbers: the plainest job there is."""

import torch
from torch import nn
from torch.utils.data import TensorDataset

import legroom


def make_model():
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4))


def make_data(num_samples, seed):
    random = torch.Generator().manual_seed(seed)
    inputs = torch.randn(num_samples, 32, generator=random)
    return TensorDataset(inputs, inputs[:, :4].argmax(1))


def loss(model, batch):
    inputs, labels = batch
    return nn.functional.cross_entropy(model(inputs), labels)


def count_correct(model, batch):
    inputs, labels = batch
    return (model(inputs).argmax(1) == labels).sum(), len(labels)


def job(num_samples: int = 512) -> legroom.Job:
    return legroom.Job(
        model=make_model,
        train_data=lambda: make_data(num_samples, seed=0),
        valid_data=lambda: make_data(128, seed=1),
        loss=loss,
        optimizer=lambda model, rate: torch.optim.SGD(model.parameters(), rate, momentum=0.9),
        score=legroom.Score(count_correct, goal="max"),
        baseline=legroom.Settings(batch_size=16, learning_rate=0.1, num_epochs=2),
    )
