"""What tests of the built-in jobs share: a short run through the one loop, and batches as a memory question asks."""

from dataclasses import asdict, replace

import pytest
import torch

from legroom.child.batches import BatchSource
from legroom.questions.memory.child.trace import trace
from legroom.training.loop import Run
from legroom.training.records import Train


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """No test reads or fills the user's cache."""
    monkeypatch.setenv("LEGROOM_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def one_thread():
    """Models this small are slower on several threads; much slower where other work holds the cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def train_two_epochs(one_thread):
    """Trains a job for two epochs on the CPU; what came of it."""

    def train(job, **settings):
        chosen = replace(job.baseline, **({"num_epochs": 2, "batch_size": 8, "num_workers": 0} | settings))
        request = Train(device="cpu", settings=asdict(chosen))
        return Run(job, request, job.train_data(), job.valid_data()).go()

    return train


@pytest.fixture
def estimate_bytes(one_thread):
    """Bytes of training on a GPU at those batch sizes, estimated in this process."""

    def estimate(job, *sizes):
        source = BatchSource(job, job.train_data(), "train_data")
        found = trace(job, job.baseline, lambda size: next(source.batches(size, "worst")))
        return [found.train.peak(size).num_bytes for size in sizes]

    return estimate
