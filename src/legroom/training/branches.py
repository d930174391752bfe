"""A trunk and its branches: from one state of a training several short ones, each with its own rate and batch."""

import math
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import torch

from legroom.clock import Clock, monotonic
from legroom.errors import UsageError
from legroom.job import Job
from legroom.training.evaluation import Evaluation, Validation
from legroom.training.records import Evaluated, Train
from legroom.training.rng import restore_rng, rng_state
from legroom.training.schedules import Schedule
from legroom.training.state import attributes_of
from legroom.training.trainer import Beat, Trainer

LOOK_STEPS = 100
"""Updates after which losses are read at the latest: one that is not finite ends what is trained."""


class Trunk:
    """A training that others branch off from, in memory. It goes on as if there had been none, bit for bit.

    What branches change is copied before and put back after: weights, buffers, optimizer, loss scale, carried states,
    and random numbers of Python, numpy, torch, CUDA, modules and data sets. The trunk's own loader stays open
    meanwhile. Not put back is what a job keeps in other places, such as objects of its own, or in libraries, such as
    the dropout of cuDNN's recurrent layers.
    """

    def __init__(
        self,
        job: Job,
        request: Train,
        train_data: Any,
        valid_data: Any = None,
        *,
        beat: Beat = lambda message, share: None,
        clock: Clock = monotonic,
    ) -> None:
        self.beat, self.valid_data = beat, valid_data
        self.trainer = Trainer(job, request, train_data, clock)
        if not hasattr(self.trainer.optimizer, "param_groups"):
            raise UsageError(
                "This job keeps its optimizers to itself, so legroom can neither set their rates nor put them back. "
                "Let its `optimizer` return one torch optimizer"
            )
        self.valid = None
        if valid_data is not None:
            self.valid = Validation(self.trainer.job, valid_data, self.trainer.settings, self.trainer.device)

    def advance(self, num_steps: int) -> list[float]:
        """Train on for so many updates at the rates of the request; their losses.

        One that is not finite ends it after a hundred updates at most.
        """
        losses: list[float] = []
        while len(losses) < num_steps:
            found = self._train(self.trainer, min(LOOK_STEPS, num_steps - len(losses)))
            losses += found
            if not math.isfinite(sum(found)):
                break
        return losses

    def branch(
        self,
        *,
        schedule: Schedule,
        num_steps: int,
        batch_size: int | None = None,
        accumulation_steps: int | None = None,
        evaluate_steps: int | None = None,
    ) -> list[Evaluated]:
        """Train from here for so many updates and evaluate; then put everything back.

        schedule: factor on the rate of each parameter group as the job made it, by the branch's own step from 0 on.
        batch_size, accumulation_steps: the trunk's where absent. Where the order of samples is ours, a branch goes on
        with those that come next, whatever its batch; an own loader or iterable data it reads from the beginning.
        evaluate_steps: updates between evaluations; where absent there is one, at the end. With no updates the
        evaluation is that of the trunk.

        Steps and epochs in what is returned count from the branch's start. A loss that is not finite ends the branch
        with an infinite train_loss, and no evaluation.
        """
        settings = self.trainer.settings
        size, passes = batch_size or settings.batch_size, accumulation_steps or settings.accumulation_steps
        if passes > 1 and self.trainer.job.step is not None:
            raise UsageError("This job has its own step, so legroom cannot accumulate for it; use accumulation_steps=1")
        kept = self.trainer.state(self.valid_data).copied()
        try:
            branch = self.trainer.branch(schedule, batch_size=size, accumulation_steps=passes)
            with closing(branch.feed):
                return self._run(branch, num_steps, evaluate_steps or num_steps)
        finally:
            self.trainer.put_back(kept)

    def evaluate(self) -> Evaluation:
        """Loss and score of the trunk as it stands; what an evaluation changes besides is put back."""
        assert self.valid is not None, "there is no validation data"
        model = self.trainer.model
        kept = [each.copied() for each in attributes_of(model, (self.trainer.data, self.valid_data))]
        rng = rng_state()
        try:
            return self.valid.evaluate(model, lambda: self.beat("evaluating", None))
        finally:
            for each in kept:
                each.restore()
            restore_rng(rng)

    def ramp(self, schedule: Schedule, num_steps: int, ends: Callable[[list[float]], bool]) -> list[float]:
        """Losses of a branch whose rate moves at every update, read at once, until they say that it should end."""
        settings = self.trainer.settings
        losses: list[float] = []
        kept = self.trainer.state(self.valid_data).copied()
        try:
            branch = self.trainer.branch(
                schedule, batch_size=settings.batch_size, accumulation_steps=settings.accumulation_steps
            )
            with closing(branch.feed):
                while len(losses) < num_steps and not (losses and ends(losses)):
                    losses += self._train(branch, 1)
            return losses
        finally:
            self.trainer.put_back(kept)

    def close(self) -> None:
        """End loader processes."""
        self.trainer.feed.close()

    def _run(self, branch: Trainer, num_steps: int, evaluate_steps: int) -> list[Evaluated]:
        evaluations: list[Evaluated] = []
        losses: list[float] = []
        started = branch.clock()
        while True:
            until = min(num_steps, (branch.at.step // max(1, evaluate_steps) + 1) * evaluate_steps)
            losses += self._train(branch, min(LOOK_STEPS, until - branch.at.step))
            diverged = not math.isfinite(sum(losses))
            if diverged or branch.at.step == until:
                evaluations.append(self._evaluate(branch, losses, started, diverged=diverged))
                losses = []
            if diverged or branch.at.step == num_steps:
                return evaluations

    def _train(self, trainer: Trainer, num_steps: int) -> list[float]:
        """The losses of so many updates."""
        losses: list[torch.Tensor] = []
        for loss in trainer.updates(num_steps):
            losses.append(loss)
            self.beat("training", None)
        return torch.stack(losses).float().tolist() if losses else []

    def _evaluate(self, branch: Trainer, losses: Sequence[float], started: float, *, diverged: bool) -> Evaluated:
        found = Evaluation(loss=None, score=None)
        if self.valid is not None and not diverged:
            found = self.valid.evaluate(branch.model, lambda: self.beat("evaluating", None))
        num_batches, size = branch.feed.num_batches, branch.settings.batch_size
        mean = sum(losses) / len(losses) if losses else None
        return Evaluated(
            step=branch.at.step,
            epoch=branch.at.num_samples / (num_batches * size) if num_batches else 0.0,
            seconds=branch.clock() - started,
            loss=found.loss,
            score=found.score,
            train_loss=math.inf if diverged else mean,
        )
