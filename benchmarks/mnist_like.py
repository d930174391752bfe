"""A small convolutional network on as many pictures as MNIST has, fed by two loader processes."""

import torch
from torch import nn
from torch.utils.data import Dataset

import legroom


class Images(Dataset):
    """Noise of 28 x 28 bytes with ten labels."""

    def __init__(self, num_samples, seed):
        random = torch.Generator().manual_seed(seed)
        self.pictures = torch.randint(0, 256, (num_samples, 1, 28, 28), generator=random, dtype=torch.uint8)
        self.labels = torch.randint(0, 10, (num_samples,), generator=random)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.pictures[index].float() / 255, self.labels[index]


def make_model():
    convolutions = (nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.MaxPool2d(2))
    return nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(800, 128), nn.ReLU(), nn.Linear(128, 10))


def loss(model, batch):
    pictures, labels = batch
    return nn.functional.cross_entropy(model(pictures), labels)


def count_correct(model, batch):
    pictures, labels = batch
    return (model(pictures).argmax(1) == labels).sum(), len(labels)


def job() -> legroom.Job:
    return legroom.Job(
        model=make_model,
        train_data=lambda: Images(60_000, seed=0),
        valid_data=lambda: Images(10_000, seed=1),
        loss=loss,
        optimizer=lambda model, rate: torch.optim.Adam(model.parameters(), rate),
        score=legroom.Score(count_correct, goal="max", chance=0.1),
        baseline=legroom.Settings(batch_size=64, learning_rate=1e-3, num_epochs=2, num_workers=2),
    )
