"""Who moves the learning rates of a run: a schedule, or the job's own scheduler."""

import collections
import io
import pickle
from collections.abc import Mapping
from typing import Any, Protocol

import torch

from legroom.errors import JobRaised, UsageError
from legroom.job import OWN_SCHEDULE, Job, RunLength, Settings
from legroom.training.schedule_text import make_schedule
from legroom.training.schedules import Schedule

NAME_ANOTHER = "Name a schedule with --schedule instead, such as --schedule cosine or --schedule constant"
RECENT = 2_048
"""Updates that the loop makes at most before it looks at their losses and rates."""


class Rates(Protocol):
    """What the loop tells whoever moves the rates."""

    def before_update(self, step: int) -> None: ...
    def after_update(self, num_batches: int) -> None:
        """`num_batches`: how many of this epoch are trained on."""

    def after_epoch(self, num_epochs: int) -> None: ...
    def last(self, num_steps: int) -> float | None:
        """The first group's rate at the last of so many updates; None where nobody knows.

        Those of the last `RECENT` updates may be asked for.
        """

    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...


def make_rates(job: Job, optimizer: Any, settings: Settings, length: RunLength) -> Rates:
    """The job's own scheduler where the settings say so, else the schedule that they name."""
    if settings.schedule != OWN_SCHEDULE:
        return ScheduledRates(optimizer, base_rates(optimizer), _named_schedule(optimizer, settings, length))
    if job.scheduler is None:
        raise UsageError(f"The schedule is 'own', and the job has no scheduler. {NAME_ANOTHER}")
    if settings.warmup_steps:
        raise UsageError(
            f"warmup_steps is {settings.warmup_steps:,}, and the job's own scheduler makes its own warm-up. "
            f"Leave it out. Or: {NAME_ANOTHER}"
        )
    return OwnRates(job.scheduler(optimizer, length), optimizer)


def base_rates(optimizer: Any) -> list[float]:
    """The rate of each parameter group; of a fresh optimizer as the job made it, which schedules multiply."""
    return [float(group["lr"]) for group in getattr(optimizer, "param_groups", [])]


def _named_schedule(optimizer: Any, settings: Settings, length: RunLength) -> Schedule:
    if not hasattr(optimizer, "param_groups") and (settings.schedule != "constant" or settings.warmup_steps):
        raise UsageError(
            "This job hands legroom no optimizer, so its rate cannot be scheduled; use schedule='constant'"
        )
    return make_schedule(
        settings.schedule,
        num_steps=length.num_steps or 1,
        steps_per_epoch=length.steps_per_epoch or 1,
        warmup_steps=settings.warmup_steps,
        warmup_start=settings.warmup_start,
    )


class ScheduledRates:
    """A function of the step, which multiplies the rate of each parameter group."""

    def __init__(self, optimizer: Any, rates: list[float], schedule: Schedule) -> None:
        self.optimizer, self.rates, self.schedule = optimizer, rates, schedule

    def before_update(self, step: int) -> None:
        factor = self.schedule(step)
        for group, rate in zip(self.optimizer.param_groups if self.rates else [], self.rates, strict=True):
            if isinstance(group["lr"], torch.Tensor):
                group["lr"].fill_(rate * factor)
            else:
                group["lr"] = rate * factor

    def after_update(self, num_batches: int) -> None:
        pass

    def after_epoch(self, num_epochs: int) -> None:
        pass

    def last(self, num_steps: int) -> float | None:
        return self.rates[0] * self.schedule(max(0, num_steps - 1)) if self.rates else None

    def state_dict(self) -> dict[str, Any]:
        return {}  # a function of the step remembers nothing

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        pass


class OwnRates:
    """The job's own schedulers, stepped after updates or epochs as Lightning steps them."""

    def __init__(self, made: Any, optimizer: Any) -> None:
        self.optimizer = optimizer
        self.last_rate: Any = None
        self.recent: collections.deque[Any] = collections.deque(maxlen=RECENT)
        """Rates of the last updates, still where the optimizer has them."""
        self.num_steps = 0
        self.parts = [_read(entry) for entry in (made if isinstance(made, list | tuple) else [made])]
        _refuse_unreadable(self.state_dict())

    def before_update(self, step: int) -> None:
        groups = getattr(self.optimizer, "param_groups", None)
        if groups:
            rate = groups[0]["lr"]
            self.last_rate = rate.clone() if isinstance(rate, torch.Tensor) else rate
            self.recent.append(self.last_rate)
            self.num_steps = step + 1

    def after_update(self, num_batches: int) -> None:
        self._step("step", num_batches)

    def after_epoch(self, num_epochs: int) -> None:
        self._step("epoch", num_epochs)

    def last(self, num_steps: int) -> float | None:
        if self.last_rate is None:
            self.before_update(num_steps)
        back = self.num_steps - num_steps + 1
        rate = self.recent[-back] if 1 <= back <= len(self.recent) else self.last_rate
        return None if rate is None else float(rate)

    def state_dict(self) -> dict[str, Any]:
        return {"last": self.last_rate, "schedulers": [scheduler.state_dict() for scheduler, _, _ in self.parts]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.last_rate = state["last"]
        for (scheduler, _, _), saved in zip(self.parts, state["schedulers"], strict=True):
            scheduler.load_state_dict(saved)

    def _step(self, interval: str, number: int) -> None:
        for scheduler, when, frequency in self.parts:
            if when == interval and number % frequency == 0:
                scheduler.step()


def _read(entry: Any) -> tuple[Any, str, int]:
    """A scheduler with its interval and frequency, of what Job.scheduler returned."""
    config = entry if isinstance(entry, Mapping) else {"scheduler": entry}
    scheduler, interval, frequency = (
        config.get(name, default) for name, default in (("scheduler", None), ("interval", "step"), ("frequency", 1))
    )
    if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
        raise UsageError(f"The job's own scheduler is a ReduceLROnPlateau, which waits for a metric. {NAME_ANOTHER}")
    if not all(hasattr(scheduler, name) for name in ("step", "state_dict", "load_state_dict")):
        raise JobRaised(
            f"Job.scheduler returned a {type(scheduler).__name__}; legroom needs a torch scheduler, "
            "or {'scheduler': ..., 'interval': 'step' or 'epoch', 'frequency': 1}"
        )
    if interval not in ("step", "epoch") or not isinstance(frequency, int) or frequency < 1:
        raise JobRaised(
            f"Job.scheduler returned the interval {interval!r} and the frequency {frequency!r}; "
            "they must be 'step' or 'epoch', and a whole number of at least 1"
        )
    return scheduler, interval, frequency


def _refuse_unreadable(state: dict[str, Any]) -> None:
    """A checkpoint is read back as tensors and plain values: better told now than when a run is to go on."""
    held = io.BytesIO()
    try:
        torch.save(state, held)
        held.seek(0)
        torch.load(held, weights_only=True)
    except (pickle.PickleError, AttributeError, TypeError, RuntimeError) as error:
        first = (str(error).splitlines() or [""])[0]
        raise UsageError(
            f"The state of the job's own scheduler cannot be kept in a checkpoint ({first}). "
            f"Let its state_dict() hold numbers, text and tensors. Or: {NAME_ANOTHER}"
        ) from None


def as_scheduler(optimizer: torch.optim.Optimizer, schedule: Schedule) -> torch.optim.lr_scheduler.LRScheduler:
    """Multiply each parameter group's own rate by the schedule: call its `step()` after each update.

    The rate of the first update is set at once. Build the schedule with peak=1, so that each group peaks at the rate
    its optimizer was made with.

    >>> from legroom.training.schedules import warmup
    >>> weights = [torch.nn.Parameter(torch.zeros(1)) for _ in range(2)]
    >>> optimizer = torch.optim.SGD([{"params": weights[:1]}, {"params": weights[1:], "lr": 0.1}], lr=1.0)
    >>> scheduler = as_scheduler(optimizer, warmup(4, peak=1.0, start=0.5))
    >>> optimizer.step(); scheduler.step(); scheduler.get_last_lr()
    [0.625, 0.0625]
    """
    return torch.optim.lr_scheduler.LambdaLR(optimizer, schedule)
