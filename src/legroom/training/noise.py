"""Squares of gradients at two batch sizes, read in the midst of updates that are made anyway."""

import math
from collections.abc import Callable
from typing import Any

import torch

from legroom.job import Batch
from legroom.training.data.batch import map_tensors, tensors_of
from legroom.training.trainer import Trainer

EVERY = 8
"""One update in so many is looked at: its batch is passed in two halves, which small models feel."""
SECOND_MOMENTS = ("exp_avg_sq", "square", "square_avg", "sum")
"""What optimizers that divide by the size of the gradient call its mean square."""

BATCH_NORMS = (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d, torch.nn.SyncBatchNorm)


class NoiseMeter:
    """Looks at one update in eight of a training after its warm-up; which ones depends on their number alone.

    Passes that are joined into an update are taken as they are; a single batch is passed in two halves, whose joined
    gradient is the same but for rounding. Where halves would not be the same (normalisation by batch, a loader of the
    job's own, samples that cannot be cut), nothing is looked at.
    """

    def __init__(self, trainer: Trainer, *, first_step: int) -> None:
        self.trainer, self.first_step = trainer, first_step
        self.splits = trainer.job.loader is None and not _normalises_by_batch(trainer.model)
        self.sizes: tuple[int, int] | None = None
        self._small: list[torch.Tensor] = []
        self._big: list[torch.Tensor] = []
        self._passes = self._seen = 0
        trainer.regroup = self.regroup
        trainer.update.watch = self._watch

    def regroup(self, step: int, group: list[Batch]) -> list[Batch]:
        """The passes of an update: its batch in halves, where it is looked at."""
        self._passes = self._seen = 0
        if step < self.first_step or step % EVERY != EVERY - 1:
            return group
        size, whole = self.trainer.settings.batch_size, self.trainer.settings.accumulation_steps
        if whole > 1:
            self._passes = len(group) if len(group) == whole else 0
            self.sizes = (size, size * whole)
            return group
        halves = _halves(group[0], size) if self.splits else None
        if halves is None:
            return group
        self._passes, self.sizes = 2, (size // 2, size)
        return halves

    def take(self) -> tuple[list[float], list[float]]:
        """The squares since the last call, at the small size and at the big one; waits for the device."""
        found = [[float(value) for value in values] for values in (self._small, self._big)]
        self._small, self._big = [], []
        kept = [pair for pair in zip(*found, strict=False) if all(map(math.isfinite, pair))]
        return [small for small, _ in kept], [big for _, big in kept]

    def _watch(self, phase: str) -> None:
        if phase != "backward" or not self._passes:
            return
        self._seen += 1
        if self._seen == 1:
            self._small.append(self._square() * self._passes**2)
        elif self._seen == self._passes:
            self._big.append(self._square())

    def _square(self) -> torch.Tensor:
        """Of the gradient as it stands, weighed as the optimizer weighs it."""
        optimizer, parts = self.trainer.optimizer, []
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    square = parameter.grad.detach().float() ** 2
                    moment = _second_moment(optimizer.state.get(parameter, {}))
                    if moment is not None:
                        square = square / (moment.float().sqrt() + float(group.get("eps", 1e-8)))
                    parts.append(square.sum())
        return torch.stack(parts).sum()


def _second_moment(state: Any) -> torch.Tensor | None:
    return next((state[name] for name in SECOND_MOMENTS if isinstance(state.get(name), torch.Tensor)), None)


def _normalises_by_batch(model: Any) -> bool:
    return any(isinstance(module, BATCH_NORMS) for module in model.modules())


def _halves(batch: Batch, size: int) -> list[Batch] | None:
    """The batch cut in two equal parts; None where that cannot be, or not all of its tensors have a row a sample."""
    tensors = list(tensors_of(batch))
    if size % 2 or not tensors or any(tensor.dim() == 0 or tensor.shape[0] != size for tensor in tensors):
        return None
    half = size // 2
    cuts: list[Callable[[torch.Tensor], torch.Tensor]] = [lambda t: t[:half], lambda t: t[half:]]
    return [map_tensors(cut, batch) for cut in cuts]
