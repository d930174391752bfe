"""Handwritten digits of 8x8 pixels, read row by row by an LSTM: the MNIST-LSTM of large-batch studies in miniature."""

import importlib.util
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import TensorDataset

from legroom.errors import JobRaised
from legroom.job import Batch, Job, Score, Settings

NUM_VALID = 360


def job(hidden: int = 128) -> Job:
    """scikit-learn's 1,797 digits (8x8), an LSTM over their rows; no download. hidden: LSTM units."""
    return Job(
        model=lambda: RowReader(hidden),
        train_data=lambda: read_digits()[0],
        valid_data=lambda: read_digits()[1],
        loss=lambda model, batch: nn.functional.cross_entropy(model(batch[0]), batch[1]),
        optimizer=lambda model, rate: torch.optim.SGD(model.parameters(), rate, momentum=0.9),
        score=Score(count_correct, goal="max"),
        resize={"width": lambda width: lambda: RowReader(width)},
        baseline=Settings(batch_size=32, learning_rate=0.1, num_epochs=25),
    )


class RowReader(nn.Module):
    """An LSTM over the eight rows of an image; its last state names the digit."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.rows = nn.LSTM(8, hidden, batch_first=True)
        self.digit = nn.Linear(hidden, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        states, _ = self.rows(images)
        return self.digit(states[:, -1])  # type: ignore[no-any-return]


def count_correct(model: nn.Module, batch: Batch) -> tuple[torch.Tensor, int]:
    """How many digits are named right, of how many."""
    return (model(batch[0]).argmax(1) == batch[1]).sum(), len(batch[1])


def read_digits() -> tuple[TensorDataset, TensorDataset]:
    """Training and validation digits, the same split always.

    Read from the file scikit-learn ships: importing scikit-learn costs every child 1.5 s and 80 MiB, the file 50 ms.
    """
    package = importlib.util.find_spec("sklearn")
    places = package.submodule_search_locations if package else None
    path = Path(next(iter(places or [""]))) / "datasets" / "data" / "digits.csv.gz"
    if not path.is_file():
        raise JobRaised(f"The digits of scikit-learn are missing at {path}. Install scikit-learn 1.4 or newer")
    rows = np.loadtxt(path, delimiter=",", dtype=np.float32)
    order = np.random.default_rng(0).permutation(len(rows))
    images = torch.from_numpy(rows[order, :-1].reshape(-1, 8, 8) / 16)
    labels = torch.from_numpy(rows[order, -1].astype(np.int64))
    return (
        TensorDataset(images[NUM_VALID:], labels[NUM_VALID:]),
        TensorDataset(images[:NUM_VALID], labels[:NUM_VALID]),
    )
