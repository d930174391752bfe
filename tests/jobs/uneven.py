"""Sequences of very unequal length, padded to the longest of their batch: one long sample makes all of it long."""

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset

import legroom

NUM_SYMBOLS = 50


class Sentences(Dataset):
    """Mostly short; one in fifty is up to a hundred times longer."""

    def __len__(self):
        return 300

    def length(self, index):
        return 4 + index % 6 if index % 50 else 100 + index

    def __getitem__(self, index):
        symbols = (torch.arange(self.length(index)) * 7 + index) % NUM_SYMBOLS
        return symbols, index % 2


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(NUM_SYMBOLS, 16)
        self.layers = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2))

    def forward(self, symbols, lengths):
        known = torch.arange(symbols.shape[1], device=symbols.device) < lengths[:, None]
        outputs = self.layers(self.embedding(symbols))
        return (outputs * known[..., None]).sum(1) / lengths[:, None]


def pad(samples):
    sequences, labels = zip(*samples, strict=True)
    lengths = torch.tensor([len(sequence) for sequence in sequences])
    return pad_sequence(list(sequences), batch_first=True), lengths, torch.tensor(labels)


def loss(model, batch):
    symbols, lengths, labels = batch
    return nn.functional.cross_entropy(model(symbols, lengths), labels)


def job() -> legroom.Job:
    return legroom.Job(
        model=Reader,
        train_data=Sentences,
        valid_data=Sentences,
        collate=pad,
        sample_size=lambda dataset, index: dataset.length(index),
        loss=loss,
        optimizer=lambda model, rate: torch.optim.Adam(model.parameters(), rate),
        baseline=legroom.Settings(batch_size=16, learning_rate=1e-3),
    )
