"""Convolutions with BatchNorm, whose statistics need more than one value a channel and must not move in evaluation."""

import torch
from torch import nn
from torch.utils.data import Dataset

import legroom


class Stripes(Dataset):
    """Pictures of stripes, upright or level, made when asked for."""

    def __init__(self, num_samples):
        self.num_samples = num_samples

    def __len__(self):
        return self.num_samples

    def __getitem__(self, index):
        label = index % 2
        wave = torch.sin(torch.arange(16.0) + index).expand(16, 16)
        picture = wave if label else wave.T
        return picture.expand(3, 16, 16).clone(), label


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten()
        )
        self.head = nn.Sequential(nn.Linear(128, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2))

    def forward(self, pictures):
        return self.head(self.features(pictures))


def loss(model, batch):
    pictures, labels = batch
    return nn.functional.cross_entropy(model(pictures), labels)


def job() -> legroom.Job:
    return legroom.Job(
        model=ConvNet,
        train_data=lambda: Stripes(200),
        valid_data=lambda: Stripes(50),
        loss=loss,
        optimizer=lambda model, rate: torch.optim.Adam(model.parameters(), rate),
        baseline=legroom.Settings(batch_size=8, learning_rate=1e-2),
    )
