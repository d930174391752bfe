"""Stands in for the Trainer: answers what modules commonly ask of it, for one device at the start of a run."""

import math
import types
from dataclasses import replace
from typing import Any

from legroom.adapters.lightning.logged import Log
from legroom.job import RunLength, Settings


class StandInTrainer(types.SimpleNamespace):
    """Made anew for each module; what it does not know is an AttributeError, so that hasattr tells."""

    def __init__(self, settings: Settings, num_samples: int | None, datamodule: Any, score: str | None = None) -> None:
        super().__init__(
            max_steps=-1,
            current_epoch=0,
            global_step=0,
            world_size=1,
            num_devices=1,
            num_nodes=1,
            global_rank=0,
            local_rank=0,
            is_global_zero=True,
            training=True,
            validating=False,
            sanity_checking=False,
            fast_dev_run=False,
            callback_metrics={},
            datamodule=datamodule,
            log=Log(score),
        )
        num_batches = None if num_samples is None else math.ceil(num_samples / settings.batch_size)
        length = RunLength(
            num_steps=None,
            num_epochs=settings.num_epochs,
            batches_per_epoch=num_batches,
            accumulation_steps=settings.accumulation_steps,
        )
        num_steps = None if length.steps_per_epoch is None else length.steps_per_epoch * settings.num_epochs
        self.take(replace(length, num_steps=num_steps))

    def take(self, length: RunLength) -> None:
        """Answer as the Trainer of a run of that length would."""
        self.max_epochs, self.accumulate_grad_batches = length.num_epochs, length.accumulation_steps
        if length.in_steps and length.num_steps is not None:
            self.max_steps = length.num_steps
        if length.batches_per_epoch is not None:
            self.num_training_batches = length.batches_per_epoch
        if length.num_steps is not None:
            self.estimated_stepping_batches = length.num_steps

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"legroom runs the module without a Trainer, so there is no trainer.{name}. "
            "Ask for it in a hook of the Trainer's loop, or only where hasattr(self.trainer, ...) says it is there"
        )
