"""Stands in for the Trainer: answers what modules commonly ask of it, for one device at the start of a run."""

import math
import types
from typing import Any

from legroom.job import Settings


class StandInTrainer(types.SimpleNamespace):
    """Made anew for each module; what it does not know is an AttributeError, so that hasattr tells."""

    def __init__(self, settings: Settings, num_samples: int | None, datamodule: Any) -> None:
        super().__init__(
            max_epochs=settings.num_epochs,
            max_steps=-1,
            current_epoch=0,
            global_step=0,
            accumulate_grad_batches=settings.accumulation_steps,
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
        )
        if num_samples is not None:
            self.num_training_batches = math.ceil(num_samples / settings.batch_size)
            num_updates = math.ceil(self.num_training_batches / settings.accumulation_steps)
            self.estimated_stepping_batches = num_updates * settings.num_epochs

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"legroom runs the module without a Trainer, so there is no trainer.{name}. "
            "Ask for it in a hook of the Trainer's loop, or only where hasattr(self.trainer, ...) says it is there"
        )
