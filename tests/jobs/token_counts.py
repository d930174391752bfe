"""A loss per token: rows hold unequal numbers of tokens, so the loss says over how many its mean was taken."""

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset

import legroom

NUM_SYMBOLS, PADDING = 30, 0


class Lines(Dataset):
    def __len__(self):
        return 200

    def __getitem__(self, index):
        return (torch.arange(5 + index % 20) * 3 + index) % (NUM_SYMBOLS - 1) + 1


def pad(lines):
    return pad_sequence(lines, batch_first=True, padding_value=PADDING)


def loss(model, lines):
    inputs, targets = lines[:, :-1], lines[:, 1:]
    mean = nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), ignore_index=PADDING)
    return mean, (targets != PADDING).sum()


def job() -> legroom.Job:
    return legroom.Job(
        model=lambda: nn.Sequential(
            nn.Embedding(NUM_SYMBOLS, 16), nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, NUM_SYMBOLS)
        ),
        train_data=Lines,
        valid_data=Lines,
        collate=pad,
        loss=loss,
        optimizer=lambda model, rate: torch.optim.SGD(model.parameters(), rate),
        baseline=legroom.Settings(batch_size=12, learning_rate=0.1),
    )
