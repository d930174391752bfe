"""Batches as a dict with a dict inside, tensors beside text: only the tensors move to the device."""

import torch
from torch import nn
from torch.utils.data import Dataset

import legroom


class Houses(Dataset):
    def __len__(self):
        return 120

    def __getitem__(self, index):
        size = torch.tensor([index % 10.0, index % 7.0])
        return {"house": {"size": size, "street": index % 5}, "name": f"house {index}", "price": size.sum()}


class Prices(nn.Module):
    def __init__(self):
        super().__init__()
        self.street = nn.Embedding(5, 4)
        self.price = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, size, street):
        return self.price(torch.cat([size, self.street(street)], 1)).squeeze(1)


def loss(model, batch):
    return nn.functional.mse_loss(model(**batch["house"]), batch["price"])


def job() -> legroom.Job:
    return legroom.Job(
        model=Prices,
        train_data=Houses,
        valid_data=Houses,
        loss=loss,
        optimizer=lambda model, rate: torch.optim.Adam(model.parameters(), rate),
        baseline=legroom.Settings(batch_size=8, learning_rate=1e-3),
    )
