"""Batches of a data set as a job and its settings ask for them: one loader for every probe, trial and run."""

import gc
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sized
from typing import Any

import torch
from threadpoolctl import threadpool_limits
from torch.utils.data import DataLoader, IterableDataset, Sampler

from legroom.job import Batch, Job, Settings
from legroom.training.torch_internals import LoaderIterator, end_processes, processes_of

THREAD_NAMES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Where the user sets one of these, workers keep to it."""


def make_loader(
    job: Job,
    dataset: Any,
    settings: Settings,
    *,
    train: bool,
    device: torch.device,
    sampler: Sampler[int] | Iterable[int] | None = None,
    generator: torch.Generator | None = None,
    persistent: bool = True,
    pin_memory: bool = True,
    blas_threads: int | None = 1,
) -> Iterable[Batch]:
    """An iterable over one epoch of batches; iterate again for the next.

    Without a sampler, training data comes shuffled by the generator, validation data in order. A short last batch is
    dropped in training, unless it is the only one. Memory is pinned for a GPU alone; `blas_threads=None`
    leaves the threads of workers as they are.
    """
    if job.loader is not None:
        made = job.loader(dataset, settings)
        return _Epochs(job.loader, dataset, settings) if isinstance(made, Iterator) else made
    streamed = isinstance(dataset, IterableDataset)
    parallel = settings.num_workers > 0
    return DataLoader(
        dataset,
        settings.batch_size,
        shuffle=(train and sampler is None and not streamed) or None,
        sampler=sampler,
        collate_fn=job.collate,
        drop_last=train and not _is_short(job, dataset, settings.batch_size),
        generator=generator,
        num_workers=settings.num_workers,
        prefetch_factor=settings.prefetch_factor if parallel else None,
        pin_memory=pin_memory and device.type == "cuda",
        persistent_workers=parallel and persistent,
        worker_init_fn=limit_threads(blas_threads) if parallel and blas_threads else None,
    )


class _Epochs:
    """Batches of a loader written as a generator, which would end for good with its first epoch."""

    def __init__(self, loader: Callable[[Any, Settings], Iterable[Batch]], dataset: Any, settings: Settings) -> None:
        self.loader, self.dataset, self.settings = loader, dataset, settings

    def __iter__(self) -> Iterator[Batch]:
        return iter(self.loader(self.dataset, self.settings))


def _is_short(job: Job, dataset: Any, batch_size: int) -> bool:
    """Whether the data do not make one whole batch."""
    length = job.num_samples if isinstance(dataset, IterableDataset) else _length(dataset)
    return length is not None and length < batch_size


def _length(dataset: Any) -> int | None:
    return len(dataset) if isinstance(dataset, Sized) else None


def end_workers(iterator: Any, processes: Collection[Any] = ()) -> None:
    """End the loader processes behind an iterator, and these processes, by asking the iterators that started them.

    An iterator left to the collector takes 5 s a process: the queues by which it would tell them go first. To drop the
    last reference is not enough for those of torch 2.11 that pin memory, nor for a loader that holds itself.
    """
    if isinstance(iterator, LoaderIterator):
        end_processes(iterator)
    if any(process.is_alive() for process in processes):
        # Somewhere inside a loader of the job's own. To look at all objects copies memory that workers share.
        for each in [each for each in gc.get_objects() if issubclass(type(each), LoaderIterator)]:
            if any(process in processes for process in processes_of(each)):
                end_processes(each)


def limit_threads(num_threads: int) -> Callable[[int], None]:
    """What each worker runs first: torch takes one thread there by itself, numpy's BLAS all cores."""
    return _ThreadLimit(num_threads)


class _ThreadLimit:
    # A class, not a closure: workers that start anew (spawn) receive it pickled.
    def __init__(self, num_threads: int) -> None:
        self.num_threads = num_threads

    def __call__(self, worker: int) -> None:
        if any(name in os.environ for name in THREAD_NAMES):
            return
        os.environ |= dict.fromkeys(THREAD_NAMES, str(self.num_threads))  # for libraries that the worker imports later
        threadpool_limits(self.num_threads, user_api="blas")
