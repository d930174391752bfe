"""A frozen backbone under a head that learns; its groups learn at rates of a fixed ratio."""

import torch
from torch import nn
from torch.utils.data import TensorDataset

import legroom


class Transfer(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU())
        self.backbone.requires_grad_(False)
        self.neck = nn.Linear(64, 16)
        self.head = nn.Linear(16, 2)

    def train(self, mode=True):
        super().train(mode)
        self.backbone.eval()  # frozen means its BatchNorm statistics as well
        return self

    def forward(self, inputs):
        return self.head(self.neck(self.backbone(inputs)).relu())


def make_data():
    inputs = torch.randn(256, 64, generator=torch.Generator().manual_seed(0))
    return TensorDataset(inputs, (inputs[:, 0] > 0).long())


def loss(model, batch):
    inputs, labels = batch
    return nn.functional.cross_entropy(model(inputs), labels)


def make_optimizer(model, rate):
    groups = [{"params": model.neck.parameters(), "lr": rate / 10}, {"params": model.head.parameters()}]
    return torch.optim.SGD(groups, rate)


def job() -> legroom.Job:
    return legroom.Job(
        model=Transfer,
        train_data=make_data,
        valid_data=make_data,
        loss=loss,
        optimizer=make_optimizer,
        baseline=legroom.Settings(batch_size=32, learning_rate=0.05),
    )
