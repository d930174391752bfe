"""The losses of a short training, with a variant or without."""

import math

import torch

from legroom.child.built_job import BuiltJob
from legroom.questions.variants.child.limits import words_of
from legroom.questions.variants.records import BLOWN_UP, TrainVariant, VariantLosses
from legroom.training.records import Train
from legroom.training.trainer import Trainer

LOOK_STEPS = 8
"""Updates after which losses are read: one that is no number ends the training."""


def train_variant(request: TrainVariant, built: BuiltJob) -> VariantLosses:
    """The losses of a fresh training. What a change alone raises is its outcome."""
    built.forget_model()
    try:
        return VariantLosses(losses=_losses(request, built))
    except (torch.OutOfMemoryError, MemoryError):
        raise
    except Exception as error:
        if not request.changes:
            raise
        return VariantLosses(losses=[BLOWN_UP], why=words_of(error))


def _losses(request: TrainVariant, built: BuiltJob) -> list[float]:
    train = Train(device=request.device, settings={**request.settings, **request.changes}, num_steps=request.num_steps)
    trainer = Trainer(built.job, train, built.train.dataset)
    losses: list[float] = []
    try:
        while len(losses) < request.num_steps and not (losses and losses[-1] == BLOWN_UP):
            losses += _read(list(trainer.updates(min(LOOK_STEPS, request.num_steps - len(losses)))))
            built.beat("training", len(losses) / request.num_steps)
    finally:
        trainer.feed.close()
    return losses


def _read(losses: list[torch.Tensor]) -> list[float]:
    """The losses up to the first that is no number, which stands for all that would follow."""
    found = torch.stack([loss.float() for loss in losses]).tolist()
    place = next((place for place, loss in enumerate(found) if not math.isfinite(loss)), None)
    return found if place is None else [*found[:place], BLOWN_UP]
