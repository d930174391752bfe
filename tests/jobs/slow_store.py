"""A job whose samples come from slow storage: 3 ms each, in which no core works."""

import time

import torch
from torch.utils.data import Dataset

import legroom

WAIT_SECONDS = 0.003


class SlowStore(Dataset):
    """Ones, after a while."""

    def __init__(self, wait):
        self.wait = wait

    def __len__(self):
        return 4096

    def __getitem__(self, index):
        time.sleep(self.wait)
        return torch.ones(4)


class SlowBatches(SlowStore):
    """The same, whole batches at a time."""

    def __getitems__(self, indices):
        return [self[index] for index in indices]


def job(whole: bool = False, wait: float = WAIT_SECONDS):
    """The job."""
    return legroom.Job(
        model=lambda: torch.nn.Linear(4, 1),
        train_data=lambda: (SlowBatches if whole else SlowStore)(wait),
        loss=lambda model, batch: model(batch).mean(),
        optimizer=lambda model, rate: torch.optim.SGD(model.parameters(), rate),
    )
