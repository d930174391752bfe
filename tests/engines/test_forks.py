"""Loader processes that a child forks, beside what they inherit from it."""

import pytest
import torch

from legroom.engines.local import LocalEngine
from legroom.environments import UNCHANGED
from legroom.job_address import address_of
from legroom.questions.loading.records import CompareLoaders, LoaderSettings

JOB = """
import gc
import os
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import Dataset, get_worker_info

from legroom import Job


class Held:
    def __init__(self):
        self.itself, self.owner = self, os.getpid()
        self.pinned = torch.zeros(4).pin_memory() if torch.cuda.is_available() else None

    def __del__(self):
        if os.getpid() != self.owner:  # torch's own sign comes after the first collection of a worker
            Path(__file__).with_name("freed").touch()


class Collecting(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        if get_worker_info() is not None:
            gc.collect()
            Path(__file__).with_name("collected").touch()
        return torch.zeros(4)


def data():
    gc.disable()
    Held()
    return Collecting()


def job():
    return Job(
        model=lambda: nn.Linear(4, 1),
        train_data=data,
        loss=lambda model, batch: model(batch).mean(),
        optimizer=lambda model, rate: torch.optim.SGD(model.parameters(), rate),
    )
"""


@pytest.mark.parametrize("alone", [False, True], ids=["forked", "anew"])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_loader_processes_do_not_free_what_they_inherit(tmp_path, device, alone):
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs CUDA")
    (tmp_path / "collecting.py").write_text(JOB)
    worker = LocalEngine().start(address_of(f"{tmp_path / 'collecting.py'}:job"), UNCHANGED, alone=alone)
    try:
        settings = (LoaderSettings(num_workers=1),)
        found = worker.ask(
            CompareLoaders(device=device, batch_size=8, what="load", lanes=settings, num_rounds=1, num_batches=2)
        )
    finally:
        worker.close()
    assert found.lanes[0].outcome == "measured"
    assert (tmp_path / "collected").exists()
    assert not (tmp_path / "freed").exists()
