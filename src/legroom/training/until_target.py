"""Trains at a constant rate and cools down when that will reach the target; goes on from there where it did not."""

import copy
import math
from collections.abc import Mapping, Sized
from dataclasses import asdict
from typing import Any

from legroom.errors import UsageError
from legroom.training.cooldowns import FIRST_STEPS, SPACING, Outlook, cooldown_share, error_of, whole_length
from legroom.training.metrics import Recorder
from legroom.training.progress import Curve
from legroom.training.rates import Rates, ScheduledRates
from legroom.training.records import Cooldown, Evaluated, Train
from legroom.training.schedule_text import make_schedule
from legroom.training.state import RunState
from legroom.training.trainer import Trainer


class StraightOn:
    """A run that tries nothing on its way."""

    evaluates_start = False
    """Whether the untrained model is evaluated too, and at looks instead of after epochs."""

    def is_due(self) -> bool:
        """Whether this must be asked after this update."""
        return False

    def turn(self, found: Evaluated) -> None:
        """Take in an evaluation that did not end the run: where to go from here."""

    def mark(self) -> dict[str, int]:
        """What lines of metrics say besides."""
        return {}

    def tried(self, last: Evaluated | None, *, reached: bool) -> list[Cooldown]:
        """The cooldowns of a run that has ended."""
        return []

    def state(self) -> dict[str, Any]:
        """What a checkpoint holds of it."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""


class UntilTarget:
    """Looks at the run at evenly spaced ln(updates), and tries a cooldown where that should reach the target.

    The run itself has the schedule `stable` over the longest it may take. A cooldown is that schedule over a shorter
    run, so one that reaches the target gives what `stable` of that length would have, bit for bit. Before it all that
    updates change is copied; where it misses, that is put back and the run goes on.
    """

    evaluates_start = True

    def __init__(self, request: Train, trainer: Trainer, recorder: Recorder, goal: str | None, valid_data: Any) -> None:
        if request.target is None:
            raise UsageError("A run until its target needs one. Add --target score=0.97 or --target loss=0.1")
        if trainer.job.step is not None or not hasattr(trainer.optimizer, "param_groups"):
            raise UsageError(
                "This job keeps its optimizers to itself, so legroom can neither cool its rate down nor put it back. "
                "Leave --until-target out, or give the job a loss and an optimizer"
            )
        self.trainer, self.recorder, self.valid_data = trainer, recorder, valid_data
        self.share = cooldown_share(trainer.settings.schedule)
        self.name, self.aim = request.target
        self.goal = "min" if self.name == "loss" else goal or "max"
        first = max(FIRST_STEPS, 2 * trainer.settings.warmup_steps)
        self.outlook = Outlook(target=self._error(self.aim), first_step=first)
        self.trunk: RunState | None = None
        """What to go back to where the cooldown misses; None where there is none under way."""
        self.curve: dict[str, Any] = {}
        """Of the run before the cooldown."""
        self.end_step = 0
        """The last update of the cooldown under way."""
        self.least_gap = _least_gap(valid_data, trainer)
        self.next_look = max(FIRST_STEPS // 2, self.least_gap)
        self.cooldowns: list[Cooldown] = []

    def is_due(self) -> bool:
        """Whether to evaluate after this update."""
        step = self.trainer.at.step
        return step >= self.next_look or (self.trunk is not None and step == self.end_step)

    def turn(self, found: Evaluated) -> None:
        """After an evaluation short of the target: begin a cooldown, end it, or go on."""
        step = self.trainer.at.step
        if self.trunk is None:
            self.outlook.trunk.append((step, self._error(getattr(found, self.name))))
            if self._can_cool(step) and self.outlook.is_worth(step):
                self._cool()
        elif step == self.end_step:
            self._go_back(found)
        self.next_look = self.trainer.at.step + max(self.least_gap, math.ceil(SPACING * self.trainer.at.step))

    def mark(self) -> dict[str, int]:
        """The number of the cooldown that a line of metrics is of."""
        return {} if self.trunk is None else {"cooldown": len(self.cooldowns) + 1}

    def tried(self, last: Evaluated | None, *, reached: bool) -> list[Cooldown]:
        """The cooldowns of a run that has ended, the one that reached the target among them."""
        if self.trunk is None or last is None or not reached:
            return self.cooldowns
        return [*self.cooldowns, self._cooldown(last, reached=True)]

    def state(self) -> dict[str, Any]:
        """Plain values, and the state to go back to."""
        outlook, tried = asdict(self.outlook), [asdict(each) for each in self.cooldowns]
        trunk = None if self.trunk is None else self.trunk.to_file()
        plain = {"end_step": self.end_step, "next_look": self.next_look, "curve": self.curve}
        return {"outlook": outlook, "cooldowns": tried, "trunk": trunk, **plain}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on, amid a cooldown if that is where it was."""
        self.outlook = Outlook(**state["outlook"])
        self.cooldowns = [Cooldown(**each) for each in state["cooldowns"]]
        self.end_step, self.next_look, self.curve = state["end_step"], state["next_look"], state["curve"]
        if state["trunk"] is not None:
            self.trunk = RunState.from_file(state["trunk"])
            self.trainer.rates = self._rates(self.end_step)

    def _error(self, value: float | None) -> float:
        return error_of(value, goal=self.goal, target=self.aim)

    def _can_cool(self, step: int) -> bool:
        """Whether a cooldown from here ends before the run does, whose own begins near its end."""
        num_steps = self.trainer.length.num_steps
        assert num_steps is not None
        return whole_length(step, self.share) < num_steps and step > self.trainer.settings.warmup_steps

    def _cool(self) -> None:
        self.trunk = self.trainer.state(self.valid_data).copied()
        self.curve = copy.deepcopy(asdict(self.recorder.curve))
        self.end_step = whole_length(self.trainer.at.step, self.share)
        self.trainer.rates = self._rates(self.end_step)

    def _go_back(self, found: Evaluated) -> None:
        trainer, trunk = self.trainer, self.trunk
        assert trunk is not None
        missed = self._cooldown(found, reached=False)
        self.cooldowns.append(missed)
        self.outlook.cooled.append((missed.step, self._error(getattr(found, self.name))))
        self.outlook.num_wasted += missed.num_steps
        assert trainer.length.num_steps is not None
        self.trunk, trainer.rates = None, self._rates(trainer.length.num_steps)
        trainer.restore(trunk)
        trainer.at.seconds = self.recorder.seconds()
        self.recorder.curve = Curve(**self.curve | {"last_seconds": trainer.at.seconds})
        self.recorder.start()

    def _cooldown(self, found: Evaluated, *, reached: bool) -> Cooldown:
        """The one under way, up to now."""
        assert self.trunk is not None
        before, at = self.trunk.progress, self.trainer.at
        return Cooldown(
            step=before["step"],
            num_steps=at.step - before["step"],
            num_samples=at.num_samples - before["num_samples"],
            seconds=found.seconds - before["seconds"],
            loss=found.loss,
            score=found.score,
            reached=reached,
        )

    def _rates(self, num_steps: int) -> Rates:
        """The schedule over a run of that length."""
        settings, trainer = self.trainer.settings, self.trainer
        schedule = make_schedule(
            settings.schedule,
            num_steps=num_steps,
            steps_per_epoch=trainer.length.steps_per_epoch or 1,
            warmup_steps=settings.warmup_steps,
            warmup_start=settings.warmup_start,
        )
        return ScheduledRates(trainer.optimizer, trainer.base_rates, schedule)


def _least_gap(valid_data: Any, trainer: Trainer) -> int:
    """Updates between looks, at least: a sample costs an evaluation a third of what it costs an update (no backward).

    Looks then take at most half as long as the updates between them.
    """
    settings = trainer.settings
    num_samples = len(valid_data) if isinstance(valid_data, Sized) else 0
    return max(1, math.ceil(2 / 3 * num_samples / (settings.batch_size * settings.accumulation_steps)))
