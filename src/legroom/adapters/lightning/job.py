"""Joins a LightningModule's parts into a Job."""

import dataclasses
import functools
import gc
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import torch

from legroom.adapters.lightning.arguments import notes_on, read_settings, refuse_unsupported
from legroom.adapters.lightning.data import Source, open_hooks, open_loader, rebuild_loaders
from legroom.adapters.lightning.module import build, note_progress, notes_on_hooks, run_step
from legroom.adapters.lightning.optimizers import (
    configured_optimizer,
    configured_schedulers,
    rate_of_today,
    schedulers_in,
    single_optimizer,
)
from legroom.adapters.lightning.package import need_lightning
from legroom.adapters.lightning.trainer import StandInTrainer, logged_score
from legroom.errors import UsageError
from legroom.job import Batch, Job, Score, Settings, refuse_built


def from_lightning(
    module: Callable[[], Any],
    *,
    data: Callable[[], Any] | None = None,
    train_data: Callable[[], Any] | None = None,
    valid_data: Callable[[], Any] | None = None,
    arguments: Mapping[str, Any] | None = None,
    batch_size: int | None = None,
    learning_rate: float | None = None,
    optimizer: Callable[[Any, float], Any] | None = None,
    collate: Callable[[list[Any]], Batch] | None = None,
    loader: Callable[[Any, Settings], Iterable[Batch]] | None = None,
    score: Score | str | None = None,
    goal: Literal["max", "min"] | None = None,
    num_samples: int | None = None,
    sample_size: Callable[[Any, int], float] | None = None,
) -> Job:
    """A Job of a LightningModule.

    module: () -> LightningModule; the class itself will do.
    data: () -> LightningDataModule. Or train_data and valid_data, each a function that returns a Dataset or a
    DataLoader. Or neither, where the module has its own train_dataloader.
    arguments: what you pass to Trainer(...) today, for the baseline.
    learning_rate: today's rate; where absent, that of configure_optimizers, for which a module is built once more.
    score: a legroom.Score, or the name of a metric that validation_step or on_validation_epoch_end logs, as "val_acc";
    then goal says whether a higher ("max") or a lower one ("min") is better.
    optimizer: used in place of configure_optimizers and its schedulers. The rest is as in legroom.Job.
    """
    need_lightning()
    for name, value in (("module", module), ("data", data), ("train_data", train_data), ("valid_data", valid_data)):
        refuse_built("from_lightning", name, value)
    if goal is not None and not isinstance(score, str):
        raise UsageError(
            "from_lightning got goal= without the name of a logged metric. Write score='val_acc', goal=..."
        )
    refuse_unsupported(arguments or {})
    metric = score if isinstance(score, str) else None
    datamodule, train, valid = _open_data(module, data, train_data, valid_data, sized=loader is None)
    num_known = train.num_samples if num_samples is None else num_samples
    baseline = read_settings(arguments or {}, train, batch_size, num_known)
    model = functools.partial(build, module, functools.partial(StandInTrainer, baseline, num_known, datamodule, metric))
    hooks, learning_rate, has_scheduler = _ask_module(model, learning_rate, asks_optimizer=optimizer is None)
    return Job(
        model=model,
        train_data=lambda: train.dataset,
        valid_data=None if valid is None else lambda: valid.dataset,
        loss=run_step,
        optimizer=optimizer or configured_optimizer,
        scheduler=configured_schedulers if has_scheduler else None,
        score=logged_score(score, goal) if isinstance(score, str) else score,
        baseline=dataclasses.replace(baseline, learning_rate=learning_rate or baseline.learning_rate),
        collate=collate or train.collate,
        num_samples=num_samples,
        sample_size=sample_size,
        loader=loader or rebuild_loaders(train, valid, collate),
        progress=note_progress,
        notes=(*notes_on(arguments or {}, baseline), *hooks),
    )


def _open_data(
    module: Callable[[], Any],
    data: Callable[[], Any] | None,
    train_data: Callable[[], Any] | None,
    valid_data: Callable[[], Any] | None,
    sized: bool,
) -> tuple[Any, Source, Source | None]:
    if data is not None and train_data is not None:
        raise UsageError("from_lightning got both data= and train_data=. Give the data module or the data sets")
    valid = None if valid_data is None else open_loader(valid_data(), "valid_data()", sized)
    if train_data is not None:
        return None, open_loader(train_data(), "train_data()", sized), valid
    # A module asked for its data is not the one that trains, so only a data module's transfer hooks are kept.
    hooks = (data or module)()
    train, own_valid = open_hooks(hooks, sized)
    return (None if data is None else hooks), train, valid or own_valid


def _ask_module(
    model: Callable[[], Any], learning_rate: float | None, *, asks_optimizer: bool
) -> tuple[tuple[str, ...], float | None, bool]:
    """Which of its hooks nobody calls, today's rate, where it was not given, and whether a scheduler moves it."""
    # Asking leaves no trace: later models get the numbers they would have got, and this one's memory (optimizer and
    # scheduler hold each other) is free before anything is measured. No device is touched: models are born on the CPU.
    with torch.random.fork_rng(devices=[]):
        module = model()
        hooks = notes_on_hooks(module)
        if not asks_optimizer:
            return hooks, learning_rate, False
        configured = module.configure_optimizers()
        optimizer, has_scheduler = single_optimizer(module, configured), bool(schedulers_in(configured))
        rate = rate_of_today(optimizer) if learning_rate is None else learning_rate
    del module, configured, optimizer
    gc.collect()
    return hooks, rate, has_scheduler
