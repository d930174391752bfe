"""The loader of a job and its settings."""

import itertools
import multiprocessing
from multiprocessing.util import Finalize

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from legroom import Job, Settings
from legroom.training.data.loader import THREAD_NAMES, end_workers, make_loader

CPU = torch.device("cpu")


def job(**more):
    return Job(
        model=lambda: nn.Linear(1, 1),
        train_data=lambda: None,
        loss=lambda model, batch: model(batch).mean(),
        optimizer=lambda model, rate: torch.optim.SGD(model.parameters(), rate),
        **more,
    )


class Stream(IterableDataset):
    def __iter__(self):
        return iter(torch.arange(10.0))


class Threads(Dataset):
    """Each sample is the number of BLAS threads where it was made."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        np.ones((2, 2)) @ np.ones((2, 2))
        return max((pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"), default=1)


def rows(count=10):
    return TensorDataset(torch.arange(float(count)))


def values(loader):
    return [batch[0].tolist() if isinstance(batch, list) else batch.tolist() for batch in loader]


def test_training_shuffles_by_the_generator_and_drops_a_short_batch():
    def order(seed):
        generator = torch.Generator().manual_seed(seed)
        return values(make_loader(job(), rows(), Settings(batch_size=4), train=True, device=CPU, generator=generator))

    assert [len(batch) for batch in order(0)] == [4, 4]
    assert order(0) == order(0) != order(1)


def test_validation_keeps_order_and_every_sample():
    found = values(make_loader(job(), rows(), Settings(batch_size=4), train=False, device=CPU))
    assert list(itertools.chain(*found)) == list(range(10))


def test_data_smaller_than_a_batch_give_one_short_batch():
    assert len(values(make_loader(job(), rows(3), Settings(batch_size=4), train=True, device=CPU))) == 1


def test_a_sampler_decides_the_order():
    loader = make_loader(job(), rows(), Settings(batch_size=2), train=True, device=CPU, sampler=[3, 1, 2, 0])
    assert values(loader) == [[3, 1], [2, 0]]


def test_an_iterable_data_set_is_batched_in_its_own_order():
    assert values(make_loader(job(), Stream(), Settings(batch_size=5), train=True, device=CPU))[0] == [0, 1, 2, 3, 4]


def test_the_jobs_own_loader_is_taken_as_it_is():
    own = job(loader=lambda dataset, settings: [settings.batch_size] * 3)
    assert list(make_loader(own, rows(), Settings(batch_size=7), train=True, device=CPU)) == [7, 7, 7]


def test_the_jobs_collate_makes_the_batch():
    collated = job(collate=len)
    assert list(make_loader(collated, rows(), Settings(batch_size=5), train=False, device=CPU)) == [5, 5]


@pytest.mark.parametrize("blas_threads", [1, None])
def test_workers_get_one_blas_thread_unless_told_otherwise(monkeypatch, blas_threads):
    for name in THREAD_NAMES:
        monkeypatch.delenv(name, raising=False)
    here = Threads()[0]
    settings = Settings(batch_size=4, num_workers=1)
    loader = make_loader(job(), Threads(), settings, train=False, device=CPU, blas_threads=blas_threads)
    assert next(iter(loader)).max() == (1 if blas_threads else here)


def test_workers_of_a_loader_that_holds_itself_end_in_order(tmp_path):
    def leave_a_trace(worker):
        Finalize(None, (tmp_path / str(worker)).touch, exitpriority=1)  # runs where a process ends, not where it dies

    batches = iter(DataLoader(TensorDataset(torch.zeros(8)), num_workers=2, worker_init_fn=leave_a_trace))
    batches.itself = batches
    next(batches)
    processes = multiprocessing.active_children()
    del batches
    end_workers(None, processes)
    assert not any(process.is_alive() for process in processes)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1"]


def test_a_loader_written_as_a_generator_gives_every_epoch():
    def halves(dataset, settings):
        yield from dataset.split(settings.batch_size)

    loader = make_loader(job(loader=halves), torch.arange(4.0), Settings(batch_size=2), train=True, device=CPU)
    assert [len(list(loader)), len(list(loader))] == [2, 2]
