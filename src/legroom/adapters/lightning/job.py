"""Joins a LightningModule's parts into a Job, and translates the Trainer's arguments both ways."""

import dataclasses
import functools
import gc
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import torch

from legroom.adapters.lightning.data import Source, open_hooks, open_loader, rebuild_loaders
from legroom.adapters.lightning.logged import logged_score
from legroom.adapters.lightning.module import build, run_step
from legroom.adapters.lightning.optimizer import configured_optimizer, rate_of_today, schedulers_in, single_optimizer
from legroom.adapters.lightning.package import need_lightning
from legroom.adapters.lightning.scheduler import configured_schedulers
from legroom.adapters.lightning.stand_in import StandInTrainer
from legroom.errors import UsageError
from legroom.job import Batch, Job, Score, Settings

PRECISIONS: Mapping[Any, str] = {
    **dict.fromkeys((None, 32, "32", "32-true"), "fp32"),
    **dict.fromkeys(("bf16", "bf16-mixed"), "bf16"),
    **dict.fromkeys((16, "16", "16-mixed"), "fp16"),
}
NAMES_OF_PRECISIONS = {"fp32": "32-true", "bf16": "bf16-mixed", "fp16": "16-mixed"}


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
    if goal is not None and not isinstance(score, str):
        raise UsageError(
            "from_lightning got goal= without the name of a logged metric. Write score='val_acc', goal=..."
        )
    metric = score if isinstance(score, str) else None
    datamodule, train, valid = _open_data(module, data, train_data, valid_data, sized=loader is None)
    baseline = _read_baseline(arguments or {}, train, batch_size)
    num_known = train.num_samples if num_samples is None else num_samples
    model = functools.partial(build, module, functools.partial(StandInTrainer, baseline, num_known, datamodule, metric))
    has_scheduler = False
    if optimizer is None:
        learning_rate, has_scheduler = _ask_optimizer(model, learning_rate)
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
    )


def trainer_arguments(settings: Settings) -> dict[str, Any]:
    """What to pass to Trainer(...) to train with these settings.

    Batch size, workers and learning rate are not the Trainer's: give them to your DataLoader and your module.

    >>> trainer_arguments(Settings(accumulation_steps=4, precision="bf16"))["precision"]
    'bf16-mixed'
    """
    return {
        "max_epochs": settings.num_epochs,
        "accumulate_grad_batches": settings.accumulation_steps,
        "gradient_clip_val": settings.clip_norm,
        "precision": NAMES_OF_PRECISIONS[settings.precision],
        "devices": settings.num_devices,
    }


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


def _read_baseline(arguments: Mapping[str, Any], train: Source, batch_size: int | None) -> Settings:
    precision, epochs, devices = (arguments.get(name) for name in ("precision", "max_epochs", "devices"))
    if precision not in PRECISIONS:
        raise UsageError(f"Trainer precision {precision!r} has no equal here. Use 32-true, bf16-mixed or 16-mixed")
    if arguments.get("gradient_clip_algorithm") == "value":
        raise UsageError("gradient_clip_algorithm is 'value'; legroom clips by norm. Leave it out to measure without")
    return Settings(
        batch_size=batch_size or train.batch_size or Settings().batch_size,
        num_workers=train.num_workers,
        prefetch_factor=train.prefetch_factor,
        accumulation_steps=arguments.get("accumulate_grad_batches", 1),
        clip_norm=arguments.get("gradient_clip_val") or None,  # 0 is Lightning's other way to say none
        num_epochs=epochs if epochs is not None and epochs > 0 else 1,
        num_devices=devices if isinstance(devices, int) and devices > 0 else 1,
        precision=PRECISIONS[precision],
    )


def _ask_optimizer(model: Callable[[], Any], learning_rate: float | None) -> tuple[float, bool]:
    """Today's rate, where it was not given, and whether a scheduler moves it."""
    # Asking leaves no trace: later models get the numbers they would have got, and this one's memory (optimizer and
    # scheduler hold each other) is free before anything is measured. No device is touched: models are born on the CPU.
    with torch.random.fork_rng(devices=[]):
        module = model()
        configured = module.configure_optimizers()
        optimizer, has_scheduler = single_optimizer(module, configured), bool(schedulers_in(configured))
        rate = rate_of_today(optimizer) if learning_rate is None else learning_rate
    del module, configured, optimizer
    gc.collect()
    return rate, has_scheduler
