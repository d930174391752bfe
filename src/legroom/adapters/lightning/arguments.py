"""Translates the Trainer's arguments into Settings, and Settings into the Trainer's arguments."""

import difflib
import inspect
import math
from collections.abc import Mapping
from typing import Any

from legroom.adapters.lightning.data import Source
from legroom.adapters.lightning.package import trainer_class
from legroom.errors import UsageError
from legroom.job import Settings

PRECISIONS: Mapping[Any, str] = {
    **dict.fromkeys((None, 32, "32", "32-true"), "fp32"),
    **dict.fromkeys(("bf16", "bf16-mixed"), "bf16"),
    **dict.fromkeys((16, "16", "16-mixed"), "fp16"),
}
NAMES_OF_PRECISIONS = {"fp32": "32-true", "bf16": "bf16-mixed", "fp16": "16-mixed"}
NOT_DONE_HERE = ("limit_train_batches", "overfit_batches")
"""Arguments that change what an epoch is, in ways legroom's loop does not."""
SHARDED = ("fsdp", "deepspeed", "model_parallel", "modelparallel")
"""Strategies whose memory is not that of one device."""


def trainer_arguments(settings: Settings) -> dict[str, Any]:
    """What to pass to Trainer(...) to train with these settings.

    Batch size, workers, learning rate and schedule are not the Trainer's: give them to your DataLoader and your module.

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


def refuse_unsupported(arguments: Mapping[str, Any]) -> None:
    """Refuse what the Trainer does not know either, and what legroom's loop would silently leave out."""
    known = inspect.signature(trainer_class()).parameters
    for name in arguments:
        if name not in known:
            close = ", ".join(difflib.get_close_matches(name, known)) or "see Trainer"
            raise UsageError(f"arguments has {name!r}, which Trainer does not. Close to it: {close}")
    for name in NOT_DONE_HERE:
        if arguments.get(name):
            raise UsageError(
                f"Trainer's {name} is {arguments[name]!r}, which legroom's loop does not do. Leave it out, and give "
                "the data set that you mean"
            )
    strategy = arguments.get("strategy") or ""
    if any(word in str(strategy if isinstance(strategy, str) else type(strategy).__name__).lower() for word in SHARDED):
        raise UsageError(f"Trainer's strategy is {strategy!r}; legroom's step is that of one device. Leave it out")
    if arguments.get("precision") not in PRECISIONS:
        raise UsageError(
            f"Trainer precision {arguments['precision']!r} has no equal here. Use 32-true, bf16-mixed or 16-mixed"
        )
    if arguments.get("gradient_clip_algorithm") == "value":
        raise UsageError("gradient_clip_algorithm is 'value'; legroom clips by norm. Leave it out to measure without")


def read_settings(
    arguments: Mapping[str, Any], train: Source, batch_size: int | None, num_samples: int | None
) -> Settings:
    """What the user runs today."""
    size, devices = batch_size or train.batch_size or Settings().batch_size, arguments.get("devices")
    accumulation = arguments.get("accumulate_grad_batches") or 1
    num_batches = None if num_samples is None else math.ceil(num_samples / size)
    return Settings(
        batch_size=size,
        num_workers=train.num_workers,
        prefetch_factor=train.prefetch_factor,
        accumulation_steps=accumulation,
        clip_norm=arguments.get("gradient_clip_val") or None,  # 0 is Lightning's other way to say none
        num_epochs=_num_epochs(arguments, num_batches and math.ceil(num_batches / accumulation)),
        num_devices=devices if isinstance(devices, int) and devices > 0 else 1,
        precision=PRECISIONS[arguments.get("precision")],
    )


def notes_on(arguments: Mapping[str, Any], settings: Settings) -> tuple[str, ...]:
    """What of the arguments a run of legroom does otherwise."""
    notes = []
    if (num_steps := arguments.get("max_steps") or -1) > 0:
        notes.append(
            f"Trainer's max_steps is {num_steps:,}; legroom trains whole epochs, {settings.num_epochs:,} of them, "
            f"unless --steps {num_steps} says otherwise"
        )
    if callbacks := arguments.get("callbacks"):
        names = ", ".join(type(each).__name__ for each in (callbacks if isinstance(callbacks, list) else [callbacks]))
        notes.append(f"Callbacks of the Trainer are not called: {names}. To end early, --patience and --target")
    return tuple(notes)


def _num_epochs(arguments: Mapping[str, Any], steps_per_epoch: int | None) -> int:
    epochs, num_steps = arguments.get("max_epochs") or -1, arguments.get("max_steps") or -1
    known = [epochs] if epochs > 0 else []
    if num_steps > 0 and steps_per_epoch:
        known.append(math.ceil(num_steps / steps_per_epoch))
    return min(known, default=1)
