"""A network over rows of numbers whose width and depth can be changed."""

import torch
from torch import nn
from torch.utils.data import TensorDataset

import legroom


def sized(width, depth):
    def make():
        layers = [nn.Linear(8, width), nn.ReLU()]
        for _ in range(depth - 1):
            layers += [nn.Linear(width, width), nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(width, 1))

    return make


def make_data(num_samples, seed):
    random = torch.Generator().manual_seed(seed)
    inputs = torch.randn(num_samples, 8, generator=random)
    noise = torch.randn(num_samples, 1, generator=random)
    return TensorDataset(inputs, inputs[:, :1] * inputs[:, 1:2] + 0.5 * noise)


def loss(model, batch):
    inputs, wanted = batch
    return nn.functional.mse_loss(model(inputs), wanted)


def job() -> legroom.Job:
    return legroom.Job(
        model=sized(24, 1),
        train_data=lambda: make_data(512, seed=0),
        valid_data=lambda: make_data(256, seed=1),
        loss=loss,
        optimizer=lambda model, rate: torch.optim.Adam(model.parameters(), rate),
        resize={"width": lambda width: sized(width, 1), "depth": lambda depth: sized(24, depth)},
        baseline=legroom.Settings(batch_size=32, learning_rate=0.05, num_epochs=2),
    )
