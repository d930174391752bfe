"""Takes a GiB in each loader process, and next to nothing in the process that trains."""

import time
from dataclasses import replace

import torch
from torch import nn
from torch.utils.data import Dataset, get_worker_info

import legroom

HELD = []


class Hungry(Dataset):
    """Samples of 8 KiB; a loader process that reads one keeps 16 MiB, and takes its time once it has a GiB."""

    def __len__(self):
        return 4096

    def __getitem__(self, index):
        if get_worker_info() is not None and len(HELD) < 64:
            HELD.append(torch.ones(2**22))
        elif get_worker_info() is not None:
            time.sleep(0.03)  # so that whoever looks now and then can see it
        return torch.ones(2048)


def job() -> legroom.Job:
    return legroom.Job(
        model=lambda: nn.Linear(2048, 8),
        train_data=Hungry,
        loss=lambda model, batch: model(batch).square().mean(),
        optimizer=lambda model, rate: torch.optim.SGD(model.parameters(), rate),
        baseline=legroom.Settings(batch_size=16, num_workers=2),
    )


def leaking() -> legroom.Job:
    """In one process, which keeps 4 MiB with every update."""

    def loss(model, batch):
        HELD.append(torch.ones(2**20))
        return model(batch).square().mean()

    return replace(job(), loss=loss, baseline=legroom.Settings(batch_size=16))
