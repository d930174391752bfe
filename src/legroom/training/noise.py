"""Squares of gradients at two batch sizes, read in the midst of updates that are made anyway."""

import math
from collections.abc import Callable
from typing import Any

import torch

from legroom.job import Batch
from legroom.training.data.batch import map_tensors, move, tensors_of
from legroom.training.rng import restore_rng, rng_state
from legroom.training.state import attributes_of
from legroom.training.step import autocast, loss_and_count
from legroom.training.trainer import Trainer

EVERY = 8
"""One update in so many is looked at: its batch is passed in two halves, which small models feel."""
SECOND_MOMENTS = ("exp_avg_sq", "square", "square_avg", "sum")
"""What optimizers that divide by the size of the gradient call its mean square."""

SAME, LEAST_LOSS = 0.003, 1e-3
"""Share of a loss by which that of its halves may differ, for rounding in bf16; and of what loss at least."""

BATCH_NORMS = (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d, torch.nn.SyncBatchNorm)


class NoiseMeter:
    """Looks at one update in eight of a training after its warm-up; which ones depends on their number alone.

    Passes that are joined into an update are taken as they are; a single batch is passed in two halves, whose joined
    gradient is the same but for rounding. Where halves would not be the same (normalisation by batch, a loader of the
    job's own, samples that cannot be cut, a loss that compares samples or counts what it does not say), nothing is
    looked at.
    """

    def __init__(self, trainer: Trainer, *, first_step: int) -> None:
        self.trainer, self.first_step = trainer, first_step
        self.splits = trainer.job.loader is None and not normalises_by_batch(trainer.model)
        self.sizes: tuple[int, int] | None = None
        self._small: list[torch.Tensor] = []
        self._big: list[torch.Tensor] = []
        self._passes = self._seen = 0
        self._known_to_add_up = False
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
        if halves is None or not self._adds_up(group[0], halves):
            return group
        self._passes, self.sizes = 2, (size // 2, size)
        return halves

    def _adds_up(self, batch: Batch, halves: list[Batch]) -> bool:
        """Whether the loss of the halves is that of the batch: asked once, for another would be what is trained."""
        if not self._known_to_add_up:
            whole, joined = (self._mean_loss(each) for each in ([batch], halves))
            self._known_to_add_up = self.splits = abs(joined - whole) <= SAME * max(abs(whole), LEAST_LOSS)
        return self._known_to_add_up

    def _mean_loss(self, batches: list[Batch]) -> float:
        """As an update joins it, without dropout; random numbers and what else it changes are put back."""
        trainer, parts = self.trainer, list[tuple[float, float]]()
        kept = [each.copied() for each in attributes_of(trainer.model, (trainer.data,))]
        rng, modes = rng_state(), [(module, module.training) for module in trainer.model.modules()]
        trainer.model.eval()
        with torch.no_grad(), autocast(trainer.device, trainer.settings.precision):
            for batch in batches:
                moved = move(batch, trainer.device)
                mean, count = loss_and_count(trainer.job.loss(trainer.model, moved), moved)  # type: ignore[misc]
                parts.append((float(mean), float(count)))
        for module, mode in modes:
            module.training = mode
        for each in kept:
            each.restore()
        restore_rng(rng)
        return sum(mean * count for mean, count in parts) / sum(count for _, count in parts)

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


def normalises_by_batch(model: Any) -> bool:
    """Whether layers of the model normalise over the batch."""
    return any(isinstance(module, BATCH_NORMS) for module in model.modules())


def _halves(batch: Batch, size: int) -> list[Batch] | None:
    """The batch cut in two equal parts; None where that cannot be, or not all of its tensors have a row a sample."""
    tensors = list(tensors_of(batch))
    if size % 2 or not tensors or any(tensor.dim() == 0 or tensor.shape[0] != size for tensor in tensors):
        return None
    half = size // 2
    cuts: list[Callable[[torch.Tensor], torch.Tensor]] = [lambda t: t[:half], lambda t: t[half:]]
    return [map_tensors(cut, batch) for cut in cuts]
