"""Handwritten digits of 8x8 pixels, read row by row by an LSTM: the MNIST-LSTM of large-batch studies in miniature."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import nn

from legroom.errors import JobRaised
from legroom.job import Job, Score, Settings
from legroom.workloads.models.classifiers import RowLSTM, SmallCNN, count_correct, mean_loss
from legroom.workloads.readers.tensors import Tensors, collate

NUM_VALID = 360
CHANCE = 42 / NUM_VALID
"""The share of the most frequent digit among those that judge."""
NUM_PIXELS = 8
NUM_LAYERS = {"lstm": 1, "cnn": 2}
LISTED = {
    "parameters": {"": 71_946, "model=cnn": 29_066},
    "sized_by": "hidden model",
    "data": {"": "digits"},
}
"""For `legroom jobs`, which reads it without importing: see `Workload`."""


def job(hidden: int = 128, model: Literal["lstm", "cnn"] = "lstm") -> Job:
    """scikit-learn's 1,797 digits (8x8); no download. An LSTM over their rows, or a small CNN.

    hidden: LSTM units, twice the channels of the CNN. model: lstm or cnn.
    """
    kind = RowLSTM if model == "lstm" else SmallCNN

    def sized(hidden: int, num_layers: int) -> Callable[[], nn.Module]:
        return lambda: kind(NUM_PIXELS, hidden, num_layers)

    return Job(
        model=sized(hidden, NUM_LAYERS[model]),
        train_data=lambda: read_digits()[0],
        valid_data=lambda: read_digits()[1],
        collate=collate,
        loss=mean_loss,
        optimizer=lambda model, rate: torch.optim.SGD(model.parameters(), rate, momentum=0.9),
        score=Score(count_correct, goal="max", chance=CHANCE),
        resize={
            "width": lambda width: sized(width, NUM_LAYERS[model]),
            "depth": lambda depth: sized(hidden, depth),
        },
        # Our own measurement: docs/workloads.md.
        baseline=Settings(batch_size=32, learning_rate=0.1, num_epochs=25),
    )


def read_digits() -> tuple[Tensors, Tensors]:
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
    images = torch.from_numpy(rows[order, :-1].reshape(-1, NUM_PIXELS, NUM_PIXELS) / 16)
    labels = torch.from_numpy(rows[order, -1].astype(np.int64))
    return Tensors(images[NUM_VALID:], labels[NUM_VALID:]), Tensors(images[:NUM_VALID], labels[:NUM_VALID])
