"""One trial: the job at another size and on a share of its data, trained until its validation loss has settled."""

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from legroom.child.built_job import BuiltJob
from legroom.child.meters import Meter, open_meter
from legroom.clock import monotonic
from legroom.job import Job
from legroom.questions.size.child.rates import scale_rates, shapes_of
from legroom.questions.size.child.share import share_of
from legroom.questions.size.child.sizes import build, count
from legroom.questions.size.curve import Curve, evaluation_steps, smooth
from legroom.questions.size.records import SizeTrained, Solver, TrainSize
from legroom.training.branches import Trunk
from legroom.training.records import Train

FIRST_SHARE, LEAST_STEPS = 1 / 16, 4
"""Of an epoch, and updates: the first evaluation."""
LEAST_EPOCHS = 3
"""Before which no trial has settled: it cannot have learned too much of data that it hardly saw."""
MARGIN = 0.02
"""Share of chance by which a score must leave it: a loss that stands there rests, however long."""
COOLED_EVERY, COOLDOWN = 6, 0.2
"""Evaluations between copies that cool down, and over which share of the updates before."""
COOLED_AFTER = 1.6
"""Times the updates to the minimum so far: copies that leave later, while the trial waits to be sure of it, came to no
less loss in any of 16 trials of digits."""
MOMENTUM = 0.9
SOLVERS: dict[Solver, Callable[[Any, float], torch.optim.Optimizer]] = {
    "sgd": lambda model, rate: torch.optim.SGD(model.parameters(), rate, momentum=MOMENTUM),
    "adam": lambda model, rate: torch.optim.Adam(model.parameters(), rate),
}


def train_size(request: TrainSize, built: BuiltJob) -> SizeTrained:
    """Train until the loss has settled, or the time is over."""
    built.forget_model()
    job, started = sized(built.job, request), monotonic()
    seed, own_loader = int(request.settings["seed"]), built.job.loader is not None
    data = share_of(built.train.dataset, request.fraction, seed, own_loader=own_loader)
    meter = open_meter(request.device, None)
    train = Train(
        device=request.device, settings={**request.settings, "model_size": ""}
    )  # the job is of one size by now
    trunk = Trunk(job, train, data, built.valid.dataset, beat=built.beat)
    try:
        trial = Trial(trunk, request, started, meter)
        outcome = trial.run()
        return SizeTrained(
            outcome=outcome,
            left_chance=trial.left_chance,
            steps=trial.steps,
            losses=trial.losses,
            cooled_steps=trial.cooled_steps,
            cooled_losses=trial.cooled_losses,
            num_parameters=count(trunk.trainer.model),
            num_samples=len(data) if hasattr(data, "__len__") else built.job.num_samples or 0,
            step_seconds=statistics.median(trial.step_seconds[1:] or trial.step_seconds),
            peak_bytes=trial.peak_bytes or take_peak(meter),
            seconds=monotonic() - started,
        )
    finally:
        trunk.close()


def sized(job: Job, request: TrainSize) -> Job:
    """The job with the model, the optimizer and the rates of the request."""
    make = job.resize[request.vary]
    optimizer = job.optimizer if request.solver == "own" else SOLVERS[request.solver]
    if request.rate_rule == "mup" and optimizer is not None:
        plain, base = optimizer, shapes_of(build(make, request.vary, request.base_value))

        def optimizer(model: Any, rate: float) -> Any:
            return scale_rates(plain(model, rate), model, base)

    return replace(job, model=make(request.value), optimizer=optimizer)


def take_peak(meter: Meter) -> int:
    """Memory of the process on a CPU; on a GPU what torch took from the card, which is what runs out."""
    peak = meter.take_peak()
    return max([peak, *meter.reserved().values()])


@dataclass
class Trial:
    """A trunk, and what was seen of it."""

    trunk: Trunk
    request: TrainSize
    started: float
    meter: Meter
    peak_bytes: int = 0
    """Before the first copy was made, which takes memory of its own; 0 until then."""
    steps: list[int] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    cooled_steps: list[int] = field(default_factory=list)
    cooled_losses: list[float] = field(default_factory=list)
    best_score: float | None = None
    step_seconds: list[float] = field(default_factory=list)
    """Of an update, in the mean between two evaluations."""

    def run(self) -> Any:
        """Train and evaluate; why it ended."""
        at = 0
        for step in evaluation_steps(self._first()):
            if not self._advance(step - at) or not self._evaluate(step):
                return "diverged"
            at = step
            lowest = self.curve.lowest_step
            if self.curve.has_settled(LEAST_EPOCHS * self._epoch, may_stand=self.left_chance is not False):
                return "settled"
            if self.curve.only_rose(LEAST_EPOCHS * self._epoch):
                return "only_rose"
            if monotonic() - self.started > self.request.max_seconds:
                return "unsettled"
            if self.request.cools and len(self.steps) % COOLED_EVERY == 0 and step <= COOLED_AFTER * lowest:
                self._cool(step)
        raise AssertionError("evaluations have no end")

    @property
    def curve(self) -> Curve:
        """What was seen, smoothed."""
        return smooth(self.steps, self.losses)

    @property
    def left_chance(self) -> bool | None:
        """Whether it scored better than a model that learned nothing; None where nobody knows how such a one does."""
        score = self.trunk.trainer.job.score
        if score is None or score.chance is None or self.best_score is None:
            return None
        gain = (self.best_score - score.chance) * (1 if score.goal == "max" else -1)
        return gain > MARGIN * abs(score.chance)

    def _first(self) -> int:
        return max(LEAST_STEPS, round(FIRST_SHARE * self._epoch))

    @property
    def _epoch(self) -> int:
        """Updates of an epoch; 0 where nobody knows."""
        return self.trunk.trainer.feed.steps_per_epoch or 0

    def _advance(self, num_steps: int) -> bool:
        """Train on; whether all losses are numbers."""
        began = monotonic()
        losses = self.trunk.advance(num_steps)
        self.step_seconds.append((monotonic() - began) / max(1, len(losses)))
        return math.isfinite(sum(losses))

    def _evaluate(self, step: int) -> bool:
        """Note the validation loss; whether it is a number."""
        found = self.trunk.evaluate()
        if found.loss is None:
            return False
        self.steps.append(step)
        self.losses.append(found.loss)
        self._note_score(found.score)
        return True

    def _note_score(self, score: float | None) -> None:
        better = max if self.trunk.trainer.job.score and self.trunk.trainer.job.score.goal == "max" else min
        if score is not None:
            self.best_score = score if self.best_score is None else better(self.best_score, score)

    def _cool(self, step: int) -> None:
        """Note what a run of that length and a cooldown comes to."""
        self.peak_bytes = self.peak_bytes or take_peak(self.meter)
        more = max(1, round(COOLDOWN * step))
        (found,) = self.trunk.branch(schedule=lambda now: 1 - now / more, num_steps=more)
        if found.loss is not None:
            self.cooled_steps.append(step + more)
            self.cooled_losses.append(found.loss)
