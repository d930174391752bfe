"""A language model over one long text: columns by batch size, and a state carried from each batch to the next."""

import torch
from torch import nn
from torch.utils.data import Dataset

import legroom

NUM_SYMBOLS, WINDOW = 20, 12


class Text(Dataset):
    """One long text, symbol by symbol."""

    def __init__(self, length, seed):
        random = torch.Generator().manual_seed(seed)
        self.symbols = torch.randint(NUM_SYMBOLS, (length,), generator=random).cumsum(0) % NUM_SYMBOLS

    def __len__(self):
        return len(self.symbols)

    def __getitem__(self, index):
        return self.symbols[index]


class CarriedLanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(NUM_SYMBOLS, 16)
        self.reader = nn.LSTM(16, 32)
        self.symbol = nn.Linear(32, NUM_SYMBOLS)
        self.state = None

    def forward(self, symbols, first):
        if first:
            self.state = None
        outputs, state = self.reader(self.embedding(symbols), self.state)
        # Without detach, each backward pass would reach into the batches before, whose graph is gone.
        self.state = tuple(part.detach() for part in state)
        return self.symbol(outputs)


def columns(dataset, settings):
    """The text cut into batch_size columns, read window by window from the top."""
    length = len(dataset) // settings.batch_size
    text = dataset.symbols[: length * settings.batch_size].view(settings.batch_size, length).T.contiguous()
    for start in range(0, length - 1, WINDOW):
        stop = min(start + WINDOW, length - 1)
        yield {"symbols": text[start:stop], "targets": text[start + 1 : stop + 1], "first": start == 0}


def loss(model, batch):
    outputs = model(batch["symbols"], batch["first"])
    return nn.functional.cross_entropy(outputs.flatten(0, 1), batch["targets"].flatten()), batch["targets"].numel()


def job() -> legroom.Job:
    return legroom.Job(
        model=CarriedLanguageModel,
        train_data=lambda: Text(4000, seed=0),
        valid_data=lambda: Text(600, seed=1),
        loader=columns,
        loss=loss,
        optimizer=lambda model, rate: torch.optim.SGD(model.parameters(), rate),
        baseline=legroom.Settings(batch_size=10, learning_rate=1.0, clip_norm=0.25),
    )
