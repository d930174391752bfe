"""One pass over held-out batches: loss and score as sums and counts, never a mean of means."""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils.data import IterableDataset

from legroom.job import Batch, Job, Settings
from legroom.training.data.batch import move
from legroom.training.data.feed import deal_batches, share_stream
from legroom.training.data.loader import make_loader
from legroom.training.data.shares import RankOrder
from legroom.training.ranks import ONE_RANK, OneRank
from legroom.training.step import autocast, loss_and_count


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What a pass over held-out data gave."""

    loss: float | None
    """Mean loss; None for a job with its own step and no loss."""
    score: float | None
    """The job's score; None for a job without one."""


class Validation:
    """The validation data of a run, for one evaluation after another."""

    def __init__(
        self, job: Job, dataset: Any, settings: Settings, device: torch.device, ranks: OneRank = ONE_RANK
    ) -> None:
        self.job, self.device, self.precision, self.ranks = job, device, settings.precision, ranks
        self.sharers = ONE_RANK if job.score is not None and job.score.whole else ranks
        """Those that share out the data among them."""
        # A job's own layout is judged at its own batch size: perplexity depends on the columns.
        size = job.baseline.batch_size if job.loader else settings.batch_size
        settings = replace(settings, batch_size=size)
        loader = make_loader(
            job,
            share_stream(job, dataset, settings, self.sharers, keep_rest=True),
            settings,
            train=False,
            device=device,
            sampler=_sampler(job, dataset, size, self.sharers),
            generator=torch.Generator(),
            persistent=False,
        )
        self.loader = deal_batches(job, loader, self.sharers)

    def evaluate(self, model: Any, tell: Callable[[], None]) -> Evaluation:
        """Loss and score, None where they are no finite numbers; `tell` is called with each batch."""
        found = evaluate(self.job, model, _telling(self.loader, tell), self.device, self.precision, self.sharers)
        return Evaluation(loss=self._agree(found.loss), score=self._agree(found.score))

    def _agree(self, value: float | None) -> float | None:
        """The value if it is a finite number; where each rank has its own, the first rank's: all decide by it."""
        if self.sharers is not self.ranks:
            value = self.ranks.first(math.nan if value is None else value)
        return value if value is not None and math.isfinite(value) else None


def _sampler(job: Job, dataset: Any, batch_size: int, ranks: OneRank) -> RankOrder | None:
    """This rank's part of the validation data, every sample on one rank alone; None where there is but one."""
    if ranks.num_ranks == 1 or job.loader is not None or isinstance(dataset, IterableDataset):
        return None
    return RankOrder(range(len(dataset)), ranks.number, ranks.num_ranks, batch_size=batch_size, keep_rest=True)


def _telling(batches: Iterable[Batch], tell: Callable[[], None]) -> Iterator[Batch]:
    for batch in batches:
        tell()
        yield batch


@torch.no_grad()
def evaluate(
    job: Job,
    model: Any,
    batches: Iterable[Batch],
    device: torch.device,
    precision: str,
    ranks: OneRank = ONE_RANK,
) -> Evaluation:
    """Loss and score over the batches, with the model in evaluation mode; its mode is restored after."""
    # Sums stay on the device until the end: reading them each batch would wait for it each batch.
    wide = torch.float32 if device.type == "mps" else torch.float64  # counts of tokens outgrow fp32's 24 bits
    sums = [torch.zeros((), device=device, dtype=wide) for _ in range(4)]
    with evaluation_mode(model):
        for batch in batches:
            moved = move(batch, device)
            with autocast(device, precision):
                if job.loss is not None:
                    mean, count = loss_and_count(job.loss(model, moved), moved)
                    sums[0] += mean.to(wide) * count
                    sums[1] += count
                if job.score is not None:
                    total, number = job.score.measure(model, moved)
                    sums[2] += total
                    sums[3] += number
    return _finish(job, *ranks.total(torch.stack(sums)).tolist())


@contextmanager
def evaluation_mode(model: Any) -> Iterator[None]:
    """Every part of the model in evaluation mode; each gets its own mode back."""
    # Module by module, because a job may keep a frozen part in evaluation mode while the rest trains.
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def _finish(job: Job, loss_sum: float, loss_count: float, score_sum: float, score_count: float) -> Evaluation:
    loss = loss_sum / loss_count if loss_count else None
    score = score_sum / score_count if score_count else None
    if score is not None and job.score is not None and job.score.finish is not None:
        try:
            score = job.score.finish(score)
        except OverflowError:  # a perplexity beyond numbers
            score = math.inf
    return Evaluation(loss=loss, score=score)
