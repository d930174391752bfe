"""One loader's life: opened, started, asked for batches, put to rest, closed; its failures told as what they mean."""

import gc
import multiprocessing
from collections.abc import Generator, Iterable, Sequence
from dataclasses import replace
from multiprocessing.connection import wait
from typing import Any

import torch
from torch.utils.data import IterableDataset

from legroom.child.built_job import BuiltJob
from legroom.clock import Clock, monotonic
from legroom.errors import JobHung, JobRaised
from legroom.host.limits import read_limits
from legroom.job import Batch
from legroom.laws.loading import waiting_bytes
from legroom.questions.loading.child.failures import (
    LoaderFailed,
    LostBatchWatch,
    Patience,
    explain_death,
    explain_sample,
    explain_start,
    hush_deaths,
    kill_workers,
    reading,
)
from legroom.questions.loading.child.room import ReadLimits, what_lacks
from legroom.questions.loading.child.watched_data import Board, watch
from legroom.questions.loading.records import CompareLoaders, LoaderSettings, ReadCold
from legroom.training.data.batch import num_bytes, tensors_of
from legroom.training.data.loader import end_workers, make_loader
from legroom.training.torch_internals import processes_of

DYING_SECONDS = 2.0


class OpenLoader:
    """A loader with the place it is at: epoch after epoch without end."""

    def __init__(
        self,
        settings: LoaderSettings,
        built: BuiltJob,
        request: CompareLoaders | ReadCold,
        *,
        indices: Sequence[int] | None = None,
        clock: Clock = monotonic,
        read_limits: ReadLimits = read_limits,
    ) -> None:
        self.settings, self.built, self.clock, self.read_limits = settings, built, clock, read_limits
        self.device, self.batch_size = torch.device(request.device), request.batch_size
        self.patience = Patience(request.patience_seconds)
        self.board = Board()
        self.loader = self._make_loader(indices)
        self.epoch_batches = self._epoch_batches()
        self.processes: list[Any] = []
        self.batch_bytes = 0
        self.repeats_samples = self.has_run = False
        self.start_seconds = self.epoch_began = 0.0
        self._iterator: Any = None
        self._batches = self._endless()

    def start(self) -> None:
        """Start the workers and take the first batch, unless a comparison before this one did."""
        if self.start_seconds:
            return
        if reason := what_lacks([self.settings], self.built, self.batch_size, self.read_limits()):
            raise LoaderFailed("out_of_memory", reason)
        before = set(multiprocessing.active_children())
        started = self.clock()
        self.board.rest()  # until all of them are there: the first ones would take the cores that start the others
        first = self.take()
        self.processes = [child for child in multiprocessing.active_children() if child not in before]
        self.start_seconds = self.clock() - started
        self.batch_bytes = num_bytes(first)
        known = self.built.batch_bytes
        known[self.batch_size] = max(self.batch_bytes, known.get(self.batch_size, 0))
        if isinstance(self.built.train.dataset, IterableDataset) and len(self.processes) > 1:
            pairs = zip(tensors_of(first), tensors_of(self.take()), strict=False)
            self.repeats_samples = all(torch.equal(one, other) for one, other in pairs)

    def _make_loader(self, indices: Sequence[int] | None) -> Any:
        job, dataset = self.built.job, self.built.train.dataset
        settings = replace(
            job.baseline,
            batch_size=self.batch_size,
            num_workers=self.settings.num_workers,
            prefetch_factor=self.settings.prefetch_factor,
        )
        return make_loader(
            job,
            dataset if job.loader is not None else watch(dataset, self.board),
            settings,
            train=True,
            device=self.device,
            sampler=indices,
            pin_memory=self.settings.pin_memory,
            blas_threads=self.settings.blas_threads,
        )

    def _epoch_batches(self) -> int:
        """0 where nobody knows; corrected when one ends, as workers may drop a last batch each."""
        if isinstance(self.built.train.dataset, IterableDataset) or self.built.job.loader is not None:
            return (self.built.job.num_samples or 0) // self.batch_size
        return len(self.loader)

    def _endless(self) -> Generator[Batch, None, None]:
        """Epoch after epoch: what a small data set loses at the end of each is part of its throughput."""
        while True:
            count = 0
            batches = self._iterator = iter(self.loader)
            self.board.go_on()
            self.epoch_began = self.clock()
            for batch in batches:
                count += 1
                yield batch
            if not count:
                raise JobRaised("The loader gave no batch. legroom needs at least one; lower --batch-size")
            self.epoch_batches = count

    def take(self) -> Batch:
        """The next batch, or an error that says who failed where."""
        self.built.beat("loading")
        try:
            with self.patience(lambda: reading(self.board, self.settings.num_workers), self._look()):
                return next(self._batches)
        except JobHung:
            kill_workers()
            raise
        except LoaderFailed:
            raise
        except Exception as error:
            self._explain(error)
            raise

    def _look(self) -> Any:
        """What looks now and then whether the batch can still come; without workers nobody else works on it."""
        if not self.settings.num_workers:
            return None
        watch = LostBatchWatch(
            self.board,
            self._children,
            waiting_bytes=waiting_bytes(
                self.settings.num_workers, self.settings.prefetch_factor, self.built.batch_bytes.get(self.batch_size, 0)
            ),
            can_see_reads=self.built.job.loader is None,
        )
        return watch.look

    def num_ahead(self) -> int:
        """Batches prepared ahead that a turn has to use up first.

        In the start there are some; workers of a job's own loader cannot be stopped; and those of a data set that hands
        over whole batches stop after the one they are at.
        """
        if self.built.job.loader is not None:
            return max(1, len(self.processes) * self.settings.prefetch_factor)
        whole = hasattr(self.built.train.dataset, "__getitems__")
        return max(1, len(self.processes)) if whole or not self.has_run else 0

    def rest(self) -> None:
        """Stop the workers until the loader's next turn: others have the cores, and nothing is prepared ahead."""
        if self.processes:
            self.board.rest()

    def close(self) -> None:
        """End the workers."""
        close_loaders([self])

    def end(self) -> bool:
        """End the workers; True where something waits for the collector, as for several loaders at once."""
        self.board.leave()
        self.processes = self._children()
        end_workers(self._iterator, self.processes)
        self._batches.close()
        self.loader = self._iterator = None
        is_pinned = self.device.type == "cuda" and self.settings.pin_memory
        # An iterator of torch 2.11 holds itself and pinned batches; one of the job's own, its workers.
        return bool(self.processes and is_pinned) or any(process.is_alive() for process in self.processes)

    def _explain(self, error: Exception) -> None:
        """Raise what the error means, where that is known."""
        explain_sample(self.board, self.settings.num_workers, error)
        hush_deaths()
        if isinstance(error, EOFError | OSError):  # its pipe closes a moment before a worker is dead
            wait([child.sentinel for child in self._children()], timeout=DYING_SECONDS)
        self.explain_death(error)
        if not self.processes and self.settings.num_workers:
            explain_start(error)

    def explain_death(self, error: Exception) -> None:
        """Raise who died where, if a worker of this loader did."""
        explain_death(self._children(), self.board, self.settings.num_workers, error)

    def _children(self) -> list[Any]:
        """Worker processes; of one that failed at its first batch too."""
        iterator = getattr(self.loader, "_iterator", None)
        return self.processes or processes_of(iterator)


def close_loaders(loaders: Iterable[OpenLoader]) -> None:
    """End the workers of all of them."""
    waits = [loader.end() for loader in loaders]
    if any(waits):
        gc.collect()  # once: it takes 0.1 s
