"""Trains a model, one update after another; all that the updates change can be copied and put back."""

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any, Literal

import torch

from legroom.clock import Clock, monotonic
from legroom.errors import JobRaised, UsageError
from legroom.job import OWN_SCHEDULE, Batch, Job, RunLength, Settings
from legroom.training.data.feed import Feed
from legroom.training.options import apply_options, build_step
from legroom.training.progress import Progress
from legroom.training.ranks import ONE_RANK, OneRank
from legroom.training.rates import Rates, ScheduledRates, base_rates, make_rates
from legroom.training.records import Train
from legroom.training.rng import restore_rng, rng_state, seed_all
from legroom.training.schedules import Schedule
from legroom.training.state import RunState, attributes_of

Beat = Callable[[str, float | None], None]
"""Told what the training is at, and the share of it that is done."""
Doing = Literal["starting", "waiting", "updating", "evaluating", "recording", "saving"]


class Trainer:
    """A fresh model, its optimizer, its batches and its rates, and how far it is with them."""

    def __init__(
        self, job: Job, request: Train, data: Any, clock: Clock = monotonic, ranks: OneRank = ONE_RANK
    ) -> None:
        self.settings, self.device = Settings(**request.settings), torch.device(request.device)
        self.data, self.clock, self.ranks = data, clock, ranks
        self.job = apply_options(job, self.settings)
        seed_all(self.settings.seed)
        plain = build_step(self.job, self.settings, self.device, lambda model: ranks.prepare(self.job, model))
        self.feed = Feed(job, data, self.settings, self.device, ranks)
        self.update = ranks.join(plain, equal=self.feed.order is not None)
        self.model, self.optimizer = self.update.model, self.update.optimizer
        self.base_rates = base_rates(self.optimizer)
        """Of each parameter group, as the job made it."""
        self.length = run_length(request, self.settings, self.feed)
        self.rates: Rates = make_rates(job, self.optimizer, self.settings, self.length)
        self.at = Progress()
        self.num_before = 0
        """Updates of the training that this one branched off."""
        self.epoch_rng: Mapping[str, Any] = {}
        """Random numbers when this epoch began."""
        self.doing: Doing = "starting"
        self.since = clock()
        """When it began with that; of an evaluation, its last batch."""
        self._groups: Iterator[list[Batch]] | None = None
        """Of the epoch that has begun."""
        self.regroup: Callable[[int, list[Batch]], list[Batch]] | None = None
        """Says, by an update's number, how its batches are passed; None: as they come."""

    def next_update(self) -> torch.Tensor | None:
        """Make an update; its loss, still on the device. None where the epoch has no more batches: then end it."""
        at, clock = self.at, self.clock
        if self._groups is None:
            self._groups = self._enter_epoch()
        self.doing, self.since = "waiting", (asked := clock())
        group = next(self._groups, None)
        self.doing, self.since = "updating", (began := clock())
        if group is None:
            return None
        self.rates.before_update(at.step)
        loss = self.update(group if self.regroup is None else self.regroup(at.step, group))
        self.doing, self.since = "recording", (now := clock())
        at.step += 1
        at.position += len(group)
        self._tell()
        self.rates.after_update(at.position)
        at.num_samples += self.feed.round_size * len(group)
        at.waited_seconds += began - asked
        at.training_seconds += now - asked
        return loss

    def updates(self, num_steps: int) -> Iterator[torch.Tensor]:
        """Make so many updates, across the ends of epochs; their losses, still on the device."""
        for _ in range(num_steps):
            while (loss := self.next_update()) is None:
                self.end_epoch()
            yield loss

    def end_epoch(self) -> None:
        """Count the epoch that has no more batches; the next update begins another."""
        if self.at.position == 0:
            raise JobRaised(f"An epoch gave no batch of {self.settings.batch_size:,}. Use a smaller batch")
        self.at.epoch, self.at.position, self.at.ahead, self._groups = self.at.epoch + 1, 0, 0, None
        self.rates.after_epoch(self.at.epoch)

    def _enter_epoch(self) -> Iterator[list[Batch]]:
        self.doing, self.since = "starting", self.clock()
        self._tell()
        rng = rng_state()
        if self.at.position == 0:
            self.epoch_rng = rng
            return self.feed.groups(self.at.epoch, 0)
        # Restored amid the epoch: what is read again must be what was read then.
        restore_rng(self.epoch_rng)
        groups = self.feed.groups(self.at.epoch, self.at.position * self.feed.round_size - self.at.ahead)
        restore_rng(rng)
        return groups

    def _tell(self) -> None:
        """Let the job know how far its model is: updates in all, and the epoch, which ends with its evaluation."""
        if self.job.progress is not None:
            self.job.progress(self.model, self.num_before + self.at.step, self.at.epoch)

    def rate(self, num_steps: int | None = None) -> float:
        """Of the last of so many updates, or of all so far, for the first group of parameters."""
        rate = self.rates.last(self.at.step if num_steps is None else num_steps)
        return self.settings.learning_rate if rate is None else rate

    def state(self, *others: Any) -> RunState:
        """All that updates change, as it is now; `others` are data sets besides the training data."""
        return RunState(
            model=self.model.state_dict(),
            optimizer=self.optimizer.state_dict() if hasattr(self.optimizer, "state_dict") else None,
            scaler=self.update.scaler.state_dict(),
            rates=self.rates.state_dict(),
            progress=asdict(self.at),
            rng=rng_state(),
            epoch_rng=self.epoch_rng,
            gradients=[parameter.grad for parameter in self.model.parameters()],
            attributes=attributes_of(self.model, (self.data, *others)),
        )

    def restore(self, state: RunState) -> None:
        """Go on from that state as if nothing had happened since; it is taken over, so keep a copy to use it again."""
        self.put_back(state)
        self.rates.load_state_dict(state.rates)
        self.at, self.epoch_rng = Progress(**state.progress), state.epoch_rng
        self._groups = None

    def rebase(self, saved: Mapping[str, Any]) -> None:
        """Count the epoch so far in batches of this run, where it was begun with others: by the settings `saved`."""
        size = int(saved.get("batch_size", 0)) * int(saved.get("num_devices", 1))
        if self.feed.order is None or size in (0, self.feed.round_size):
            return
        used = self.at.position * size - self.at.ahead
        self.at.position = -(-used // self.feed.round_size)
        self.at.ahead = self.at.position * self.feed.round_size - used

    def put_back(self, state: RunState) -> None:
        """What a training and its branches share: weights, optimizer, loss scale, attributes and random numbers."""
        for each in state.attributes:  # first: buffers that came since would be missed in what is loaded
            each.restore()
        self.model.load_state_dict(state.model)
        if state.optimizer is not None:
            self.optimizer.load_state_dict(state.optimizer)
        self.update.scaler.load_state_dict(dict(state.scaler))
        for parameter, gradient in zip(self.model.parameters(), state.gradients, strict=False):  # none in checkpoints
            parameter.grad = None if gradient is None else gradient.to(parameter.device)
        restore_rng(state.rng)
        self._tell()

    def branch(self, schedule: Schedule, *, batch_size: int, accumulation_steps: int) -> "Trainer":
        """Another training of the same model and optimizer, with batches and rates of its own, from here on.

        Where the order is ours, it goes on with the samples that come next; other data it reads from their beginning.
        """
        other = copy.copy(self)
        other.regroup = None
        other.settings = replace(self.settings, batch_size=batch_size, accumulation_steps=accumulation_steps)
        other.feed = Feed(self.job, self.data, other.settings, self.device)
        other.rates = ScheduledRates(self.optimizer, self.base_rates, schedule)
        start = self.at.position * self.settings.batch_size if other.feed.order is not None else 0
        other.at = Progress(epoch=self.at.epoch, position=-(-start // batch_size))
        other.num_before = self.num_before + self.at.step
        other._groups = other.feed.groups(self.at.epoch, start)
        return other


def run_length(request: Train, settings: Settings, feed: Feed) -> RunLength:
    """How long the run will be; refused where a schedule needs to know and nobody does."""
    num_steps = request.num_steps
    if num_steps is None and feed.steps_per_epoch is not None:
        num_steps = feed.steps_per_epoch * settings.num_epochs
    if num_steps is None and settings.schedule not in ("constant", OWN_SCHEDULE):
        raise UsageError(
            f"The length of an epoch is unknown, so the schedule {settings.schedule!r} has no end to aim at. "
            "Give the run's length with --steps, or Job.num_samples"
        )
    return RunLength(
        num_steps=num_steps,
        num_epochs=settings.num_epochs,
        batches_per_epoch=feed.num_batches,
        accumulation_steps=settings.accumulation_steps,
        in_steps=request.num_steps is not None,
    )
