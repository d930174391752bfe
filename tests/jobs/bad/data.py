"""A data set with a fault at one index, which the first look at the data passes by."""

import ctypes
import os
import signal
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import Dataset

import legroom

FAULTY = 1001


class Faulty(Dataset):
    """Samples of eight numbers; one of them is trouble."""

    def __init__(self, fault: str) -> None:
        self.fault = fault
        if fault == "unpicklable":
            self.lock = lambda: None  # a lambda cannot be pickled

    def __len__(self) -> int:
        return 2048

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if index == FAULTY:
            self.fail()
        return torch.full((8,), float(index)), index % 8

    def fail(self) -> None:
        if self.fault == "raises":
            raise ValueError("the label is missing")
        if self.fault == "dies":
            os.kill(os.getpid(), signal.SIGSEGV)
        if sign := os.environ.get("SIGN"):
            Path(sign).touch()
        if self.fault == "hangs":
            time.sleep(10**6)
        if self.fault == "deadlocks":  # in C, with Python's own lock held: no handler of a signal can run
            mutex = ctypes.create_string_buffer(64)
            for _ in range(2):
                ctypes.PyDLL(None).pthread_mutex_lock(mutex)


def job(fault: str = "raises") -> legroom.Job:
    if fault == "unpicklable":
        torch.multiprocessing.set_start_method("spawn", force=True)
    return legroom.Job(
        model=lambda: nn.Linear(8, 8),
        train_data=lambda: Faulty(fault),
        loss=lambda model, batch: nn.functional.cross_entropy(model(batch[0]), batch[1]),
        optimizer=lambda model, rate: torch.optim.SGD(model.parameters(), rate),
    )
