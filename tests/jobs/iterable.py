"""An iterable data set, whose length only the job knows; each loader worker reads its own share."""

import torch
from torch import nn
from torch.utils.data import IterableDataset, get_worker_info

import legroom

NUM_SAMPLES = 400


class Stream(IterableDataset):
    def __iter__(self):
        worker = get_worker_info()
        first, stride = (0, 1) if worker is None else (worker.id, worker.num_workers)
        for index in range(first, NUM_SAMPLES, stride):
            angle = torch.tensor(index / 10)
            yield torch.stack([angle.sin(), angle.cos()]), (2 * angle).sin()


def loss(model, batch):
    inputs, targets = batch
    return nn.functional.mse_loss(model(inputs).squeeze(1), targets)


def job() -> legroom.Job:
    return legroom.Job(
        model=lambda: nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1)),
        train_data=Stream,
        valid_data=Stream,
        num_samples=NUM_SAMPLES,
        loss=loss,
        optimizer=lambda model, rate: torch.optim.AdamW(model.parameters(), rate),
        baseline=legroom.Settings(batch_size=20, learning_rate=1e-2),
    )
