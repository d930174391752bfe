"""Throughputs of several loaders, in turns: on a busy machine only settings measured side by side can be ranked."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import torch

from legroom.child.built_job import BuiltJob
from legroom.clock import Clock, monotonic
from legroom.errors import OutOfMemory
from legroom.host.limits import read_limits
from legroom.job import Batch
from legroom.questions.loading.child.failures import LoaderFailed, hush_deaths
from legroom.questions.loading.child.open_loader import OpenLoader, close_loaders
from legroom.questions.loading.child.room import ReadLimits, what_lacks
from legroom.questions.loading.child.step_alone import time_step
from legroom.questions.loading.child.timed_loader import TimedLoader
from legroom.questions.loading.records import ComparedLoaders, CompareLoaders, LoaderSettings, LoaderThroughput

Loaders = dict[LoaderSettings, OpenLoader]

_kept: WeakKeyDictionary[BuiltJob, dict[tuple[str, int, LoaderSettings], OpenLoader]] = WeakKeyDictionary()
"""Loaders that stay open for the next comparison, as starting a worker takes longer than a turn of it is worth.

By device, batch size and settings. Their workers rest."""


def compare_loaders(
    request: CompareLoaders, built: BuiltJob, clock: Clock = monotonic, read_limits: ReadLimits = read_limits
) -> ComparedLoaders:
    """Every loader's throughput; one that cannot run here says why, and the others go on."""
    torch.manual_seed(request.seed)
    began = clock()
    close_kept(built, but=None if request.what == "step" else request)
    closing_seconds = clock() - began
    if request.what == "step":
        return ComparedLoaders(lanes=[time_step(request, built, clock)], close_seconds=closing_seconds)
    consume = consumer(request.what, built, torch.device(request.device), request.precision)
    found = []
    for part in _parts(request, built, read_limits):
        loaders = _open(part, built, clock, read_limits)
        with _explaining_deaths(loaders):
            found.append(_compare(part, built, loaders, consume, clock))
    return ComparedLoaders(
        lanes=[one for part in found for one in part.lanes],
        close_seconds=closing_seconds + sum(part.close_seconds for part in found),
    )


def close_kept(built: BuiltJob, but: CompareLoaders | None = None) -> None:
    """End what is kept, but for the loaders of a request."""
    spared = {(but.device, but.batch_size, settings) for settings in but.lanes} if but else set()
    kept = _kept.get(built, {})
    close_loaders([kept.pop(key) for key in kept.keys() - spared])


def consumer(what: str, built: BuiltJob, device: torch.device, precision: str) -> Callable[[Batch], Any]:
    """What a batch is for: a training step, or nothing."""
    if what == "load":
        return lambda batch: None
    step = built.training_step(device, precision, lambda phase: None)
    return lambda batch: step([batch])


def _parts(request: CompareLoaders, built: BuiltJob, read_limits: ReadLimits) -> list[CompareLoaders]:
    """The request whole, or one loader after the other where all would not fit into /dev/shm or memory at once."""
    if not what_lacks(request.lanes, built, request.batch_size, read_limits()):
        return [request]
    close_kept(built)  # they hold some of what is missing, or what makes it seem so
    if not what_lacks(request.lanes, built, request.batch_size, read_limits()):
        return [request]
    return [replace(request, lanes=(settings,), keep=False) for settings in request.lanes]


def _open(request: CompareLoaders, built: BuiltJob, clock: Clock, read_limits: ReadLimits) -> Loaders:
    """The request's loaders, in its order: those kept, and new ones that are not started yet."""
    kept = _kept.pop(built, {})
    return {
        settings: kept.get((request.device, request.batch_size, settings))
        or OpenLoader(settings, built, request, clock=clock, read_limits=read_limits)
        for settings in request.lanes
    }


def _compare(
    request: CompareLoaders, built: BuiltJob, loaders: Loaders, consume: Callable[[Batch], Any], clock: Clock
) -> ComparedLoaders:
    done: dict[LoaderSettings, LoaderThroughput] = {}
    with ExitStack() as stack:
        stack.callback(close_loaders, loaders.values())
        for loader in loaders.values():
            with _noting_failure(loader, loaders, done):
                loader.start()
                loader.rest()
        timed = [TimedLoader(loader, consume) for loader in loaders.values()]
        for _ in range(request.num_rounds):
            for one in [one for one in timed if one.loader.settings not in done]:
                with _noting_failure(one.loader, loaders, done):
                    one.window(request.window_seconds, request.num_batches)
        done |= {one.loader.settings: one.throughput() for one in timed if one.loader.settings not in done}
        if request.keep and all(one.outcome == "measured" for one in done.values()):
            stack.pop_all()
            _kept[built] = {(request.device, request.batch_size, settings): one for settings, one in loaders.items()}
        ended = clock()
    return ComparedLoaders(lanes=[done[settings] for settings in request.lanes], close_seconds=clock() - ended)


@contextmanager
def _explaining_deaths(loaders: Loaders) -> Iterator[None]:
    """Say which worker died, where torch tells of it in the middle of anything."""
    try:
        yield
    except (RuntimeError, OSError, EOFError) as error:
        hush_deaths()
        if failure := _who_died(loaders, error):
            raise OutOfMemory(failure[1].reason) from error
        raise


@contextmanager
def _noting_failure(
    loader: OpenLoader, running: Loaders, done: dict[LoaderSettings, LoaderThroughput]
) -> Iterator[None]:
    """Write down why the loader cannot go on; blame the one whose worker died, which may be another."""
    try:
        yield
    except LoaderFailed as failed:
        done[loader.settings] = _failed(loader.settings, failed)
        loader.close()  # what it holds of /dev/shm may be what the others lack
    except RuntimeError as error:
        failure = _who_died(running, error)
        if failure is None:
            raise
        done[failure[0]] = _failed(*failure)


def _who_died(loaders: Loaders, error: Exception) -> tuple[LoaderSettings, LoaderFailed] | None:
    """The loader whose worker died for want of memory; raises where it died of anything else."""
    for settings, loader in loaders.items():
        try:
            loader.explain_death(error)
        except LoaderFailed as failed:
            return settings, failed
    return None


def _failed(settings: LoaderSettings, failed: LoaderFailed) -> LoaderThroughput:
    return LoaderThroughput(lane=settings, outcome=failed.outcome, reason=failed.reason)
