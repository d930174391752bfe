"""Translates the Trainer's arguments into Settings, and Settings into the Trainer's arguments."""

import dataclasses
import difflib
import math
from collections.abc import Callable, Mapping
from typing import Any

from legroom.adapters.transformers.schedule import schedule_arguments, schedule_of, warmup_steps
from legroom.errors import UsageError
from legroom.job import OWN_SCHEDULE, Settings

NOT_DONE_HERE = ("label_smoothing_factor", "neftune_noise_alpha", "deepspeed", "fsdp")
"""Fields that change the step or its memory in ways legroom's own step does not."""


def read_arguments(arguments: Any) -> dict[str, Any]:
    """Every field of TrainingArguments: the user's, or the Trainer's default where a dict leaves it out."""
    known = {field.name: field for field in dataclasses.fields(_training_arguments_class())}
    if arguments is not None and not isinstance(arguments, Mapping):
        return {name: getattr(arguments, name, None) for name in known}
    given = dict(arguments or {})
    for name in given:
        if name not in known:
            close = ", ".join(difflib.get_close_matches(name, known)) or "see TrainingArguments"
            raise UsageError(f"arguments has {name!r}, which TrainingArguments does not. Close to it: {close}")
    return {name: given.get(name, _default_of(field)) for name, field in known.items()}


def refuse_unsupported(fields: Mapping[str, Any]) -> None:
    """Refuse what legroom's step would silently leave out."""
    for name in NOT_DONE_HERE:
        if fields.get(name):
            raise UsageError(
                f"TrainingArguments.{name} is {fields[name]!r}, which legroom's step does not do. "
                "Leave it out to measure without it, or write a legroom.Job with your own loss"
            )


def read_settings(fields: Mapping[str, Any], count_samples: Callable[[], int | None]) -> Settings:
    """What the user runs today. The samples are counted only where a field is relative to their number."""
    schedule = schedule_of(fields)
    return Settings(
        batch_size=fields["per_device_train_batch_size"],
        accumulation_steps=fields["gradient_accumulation_steps"],
        learning_rate=fields["learning_rate"],
        schedule=schedule,
        warmup_steps=0
        if schedule == OWN_SCHEDULE
        else warmup_steps(fields, lambda: _num_updates(fields, count_samples)),
        clip_norm=fields["max_grad_norm"] or None,
        num_epochs=max(1, math.ceil(_num_epochs(fields, count_samples))),
        num_workers=fields["dataloader_num_workers"],
        prefetch_factor=fields["dataloader_prefetch_factor"] or Settings().prefetch_factor,
        precision="bf16" if fields["bf16"] else "fp16" if fields["fp16"] else "fp32",
        seed=fields["seed"],
    )


def notes_on(fields: Mapping[str, Any], settings: Settings) -> tuple[str, ...]:
    """What of the arguments a run of legroom does otherwise."""
    num_steps, num_epochs = fields["max_steps"] or -1, fields["num_train_epochs"]
    if num_steps > 0:
        return (
            f"TrainingArguments.max_steps is {num_steps:,}; legroom trains whole epochs, {settings.num_epochs:,} of "
            f"them, unless --steps {num_steps} says otherwise",
        )
    if num_epochs != settings.num_epochs:
        return (f"num_train_epochs is {num_epochs:g}; legroom trains whole epochs, {settings.num_epochs:,} of them",)
    return ()


def training_arguments(settings: Settings) -> dict[str, Any]:
    """What to pass to TrainingArguments(...) to train with these settings; devices are given to torchrun.

    >>> training_arguments(Settings(batch_size=48, precision="bf16"))["per_device_train_batch_size"]
    48
    """
    return {
        "per_device_train_batch_size": settings.batch_size,
        "gradient_accumulation_steps": settings.accumulation_steps,
        "learning_rate": settings.learning_rate,
        **schedule_arguments(settings),
        "max_grad_norm": settings.clip_norm or 0.0,  # 0 is the Trainer's way to say none
        "num_train_epochs": float(settings.num_epochs),
        "dataloader_num_workers": settings.num_workers,
        "dataloader_prefetch_factor": settings.prefetch_factor if settings.num_workers else None,
        "bf16": settings.precision == "bf16",
        "fp16": settings.precision == "fp16",
        "seed": settings.seed,
    }


def _training_arguments_class() -> Any:
    try:
        from transformers import TrainingArguments
    except ImportError as error:
        raise UsageError(
            f"Transformers cannot be imported ({error}). Install it with: pip install transformers"
        ) from error
    return TrainingArguments


def _default_of(field: Any) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    return None if field.default_factory is dataclasses.MISSING else field.default_factory()


def _num_updates(fields: Mapping[str, Any], count_samples: Callable[[], int | None]) -> int:
    max_steps: int = fields["max_steps"] or -1
    if max_steps > 0:
        return max_steps
    num_epochs: float = fields["num_train_epochs"]
    return math.ceil(num_epochs * _updates_per_epoch(fields, count_samples))


def _num_epochs(fields: Mapping[str, Any], count_samples: Callable[[], int | None]) -> float:
    max_steps: int = fields["max_steps"] or -1
    if max_steps > 0:
        return max_steps / _updates_per_epoch(fields, count_samples)
    return float(fields["num_train_epochs"])


def _updates_per_epoch(fields: Mapping[str, Any], count_samples: Callable[[], int | None]) -> int:
    num_samples = count_samples()
    if num_samples is None:
        raise UsageError(
            "arguments gives max_steps or a warm-up as a share of the run, and the data set has no length. "
            "Pass from_transformers(num_samples=...)"
        )
    batch_size: int = fields["per_device_train_batch_size"]
    accumulation_steps: int = fields["gradient_accumulation_steps"]
    return max(1, math.ceil(math.ceil(num_samples / batch_size) / accumulation_steps))
