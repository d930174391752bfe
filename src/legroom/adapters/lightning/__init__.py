"""Turns a LightningModule and its data into a Job, and Settings back into the Trainer's arguments.

    from legroom.adapters.lightning import from_lightning

    def job():
        return from_lightning(LitDigits, data=DigitsData)

legroom drives the module itself, without a Trainer: training_step gives the loss, configure_optimizers the optimizer
and its schedulers, unless a run names another rate or schedule; global_step and current_epoch move with the run.
Hooks of the loop (on_train_batch_end and the like) are not called, and a note names those that the module has.
"""

from legroom.adapters.lightning.arguments import trainer_arguments
from legroom.adapters.lightning.job import from_lightning

__all__ = ["from_lightning", "trainer_arguments"]
