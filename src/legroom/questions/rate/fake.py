"""Planted learning: trunks and branches of a learner whose S_min, B_crit and best rate are known."""

import copy
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from legroom.errors import OutOfMemory
from legroom.questions.rate.records import (
    BranchBatch,
    Grown,
    GrowTrunk,
    LearnRequest,
    RampRate,
    RateRamp,
    RunTrial,
    Trial,
    update_size,
)
from legroom.requests import Request
from legroom.training.records import Evaluated, Reason

REACH = math.log(10)
"""How far from the best rate, in ln, nothing is learned any more: at a tenth of it, and at ten times."""
PULL = 0.1
"""Share of its distance from the minimum by which an update at the best rate moves what noise has displaced."""
NUM_DIRECTIONS = 16
"""In which noise displaces the weights: with more of them the noise floor itself is steadier."""


@dataclass(kw_only=True)
class FakeLearner:
    """A model that learns by a known law of learning rate r and batch size B, and forgets nothing.

    Its loss is that of what it has learned, and on top what the noise of its batches has displaced:

        loss     = start * (target / start) ** progress  +  displaced
        progress = sum over updates of  gain(r) / (1 + b_crit / B) / s_min
        gain(r)  = 1 - (ln(r / best_rate) / ln 10) ** 2,  and no less than 0

    So without noise, at the best rate, the target is met after the updates and samples that S. McCandlish et al., An
    Empirical Model of Large-Batch Training (2018), eq. 2.11, give:

        updates(B) = s_min * (1 + b_crit / B)         samples(B) = s_min * (B + b_crit)

    After the same updates at any constant rate, ln(loss) is a parabola in ln(rate) with its bottom at best_rate. With
    `rate_exponent` e the best rate moves with the batch as McCandlish et al. have it for e = 1, eq. 2.6:

        best_rate(B) = best_rate * (2 B / (B + b_crit)) ** e         so that best_rate is that of a batch of b_crit

    The noise is that of G. Zhang et al., Which Algorithmic Choices Matter at Which Batch Sizes? (2019): each of some
    directions x is pulled to 0 and displaced at random, with a pull of p = 0.1 r / best_rate,

        x <- (1 - p) x + p sqrt(19 noise b_crit / B) g,   g ~ N(0, 1)         displaced = mean of x ** 2

    At a constant rate `displaced` comes to about noise * r / best_rate * b_crit / B: a floor that a longer run does not
    leave, and that a rate which decays to zero does. At the best rate and a batch of b_crit it is `noise`.

    Every update at a rate above `diverges_above` doubles the loss, for good. Equal seeds give equal noise, so that
    copies which take the same batches meet the same noise, as branches of one run over the same data do.

    >>> learner = FakeLearner(s_min=100, b_crit=64, best_rate=0.1)
    >>> for _ in range(int(learner.updates_needed(64))):
    ...     learner.step(rate=0.1, batch_size=64)
    >>> learner.num_updates, round(learner.evaluate(), 6)
    (200, 0.1)
    """

    s_min: float
    """Updates to the target at the best rate with an endless batch."""
    b_crit: float
    """The batch that needs twice as many updates as that, and twice as many samples as the smallest."""
    best_rate: float
    noise: float = 0.0
    """Loss that noise adds at the best rate and a batch of b_crit."""
    diverges_above: float = math.inf
    rate_exponent: float = 0.0
    """How the best rate grows with the batch; 0: not at all."""
    seed: int = 0
    start_loss: float = 2.3
    target_loss: float = 0.1
    progress: float = field(default=0.0, init=False)
    """0 at the start, 1 where the target is met but for noise."""
    num_updates: int = field(default=0, init=False)
    num_samples: int = field(default=0, init=False)
    num_doublings: int = field(default=0, init=False)
    """Updates above the rate that it bears."""
    _displaced: list[float] = field(default_factory=lambda: [0.0] * NUM_DIRECTIONS, init=False)
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def updates_needed(self, batch_size: float) -> float:
        """The planted truth: updates to the target at the best rate, without noise."""
        return self.s_min * (1 + self.b_crit / batch_size)

    def best_rate_at(self, batch_size: float) -> float:
        """The planted truth: the rate at which that batch learns the most."""
        return float(self.best_rate * (2 * batch_size / (batch_size + self.b_crit)) ** self.rate_exponent)

    def step(self, *, rate: float, batch_size: int) -> None:
        """One update."""
        self.progress += self._gain(rate / self.best_rate_at(batch_size)) / self.updates_needed(batch_size)
        self.num_updates += 1
        self.num_samples += batch_size
        self.num_doublings += rate > self.diverges_above
        if self.noise:
            self._displace(PULL * rate / self.best_rate, batch_size)

    def evaluate(self) -> float:
        """The loss as it is now; infinite once it has doubled a thousand times."""
        learned = self.start_loss * (self.target_loss / self.start_loss) ** self.progress
        displaced = sum(x * x for x in self._displaced) / NUM_DIRECTIONS
        return math.inf if self.num_doublings > 1000 else (learned + displaced) * 2.0**self.num_doublings

    def copy(self) -> "FakeLearner":
        """Another that goes on from here by itself."""
        other = copy.copy(self)
        other._displaced, other._random = list(self._displaced), copy.copy(self._random)
        return other

    def _gain(self, share: float) -> float:
        """Of an update at that share of the best rate."""
        return max(0.0, 1 - (math.log(share) / REACH) ** 2) if share > 0 else 0.0

    def _displace(self, pull: float, batch_size: int) -> None:
        # Displaced comes to pull^2 w^2 / (1 - (1 - pull)^2) = pull w^2 / (2 - pull): with w^2 = 19 noise it is `noise`.
        width = math.sqrt((2 - PULL) / PULL * self.noise * self.b_crit / batch_size)
        self._displaced = [(1 - pull) * x + pull * width * self._random.gauss(0.0, 1.0) for x in self._displaced]


@dataclass(kw_only=True)
class LawlessLearner(FakeLearner):
    """A learner to which no critical batch size belongs: a batch k times as large always needs sqrt(k) fewer updates.

        updates(B) = s_min * (1 + sqrt(b_crit / B) * 2)

    >>> learner = LawlessLearner(s_min=100, b_crit=64, best_rate=0.1)
    >>> learner.updates_needed(64), learner.updates_needed(64 * 16)
    (300.0, 150.0)
    """

    def updates_needed(self, batch_size: float) -> float:
        """Updates to the target: they fall with the root of the batch."""
        return self.s_min * (1 + 2 * math.sqrt(self.b_crit / batch_size))


STEP_SECONDS = 0.005
BLOWN_UP = 100.0
NUM_SAMPLES = 10_000
"""Of the planted job's data."""
HALF_BUSY = 64
"""The batch that keeps the planted device half busy."""


class FakeLearning:
    """Answers of a machine about learning, by one planted learner.

    >>> learning = FakeLearning(FakeLearner(s_min=100, b_crit=64, best_rate=0.1))
    >>> settings = {"batch_size": 64, "learning_rate": 0.1, "warmup_steps": 0, "seed": 0}
    >>> grown, _ = learning.answer(GrowTrunk(device="cpu", settings=settings, to_step=200))
    >>> round(grown.loss, 3), grown.num_samples
    (0.1, 12800)
    """

    ANSWERS: ClassVar[tuple[type[Request[Any]], ...]] = (RampRate, GrowTrunk, BranchBatch, RunTrial)

    def __init__(
        self,
        learner: FakeLearner | None = None,
        *,
        score: Callable[[float], float] | None = None,
        times_on_all_data: float = 1.0,
        data_wait_share: float | None = None,
        most_samples: int | None = None,
    ) -> None:
        self.learner = learner or FakeLearner(s_min=100, b_crit=64, best_rate=0.1)
        self.times_on_all_data = times_on_all_data
        """Updates on all of the data, as a multiple of those on a part of it."""
        self.data_wait_share = data_wait_share
        """Of runs by whole settings: of their training time, that they wait for batches."""
        self.most_samples = most_samples
        """Of a pass that memory holds; None: any."""
        self.score = score or (lambda loss: 1 / (1 + loss))
        self._trunks: dict[tuple[Any, ...], dict[int, FakeLearner]] = {}
        """States of each trunk by the update they were left at."""

    def answer(self, request: Any) -> tuple[Any, float]:
        """What a child would report, and the seconds that would take."""
        before = request.settings["batch_size"]
        if self.most_samples is not None and getattr(request, "batch_size", before) > self.most_samples:
            raise OutOfMemory("planted: more than there is")
        if isinstance(request, RampRate):
            ramp = self._ramp(request)
            return ramp, ramp.seconds
        if isinstance(request, RunTrial):
            trial = self._run(request)
            return trial, trial.seconds
        grown = self._grow(request) if isinstance(request, GrowTrunk) else self._branch(request)
        seconds = STEP_SECONDS * grown.paid_samples / (before * request.settings.get("accumulation_steps", 1))
        return replace(grown, seconds=seconds), seconds

    def _new(self, request: LearnRequest[Any]) -> FakeLearner:
        times = self.times_on_all_data if request.fraction == 1 else 1.0
        return replace(self.learner, seed=int(request.settings["seed"]), s_min=times * self.learner.s_min)

    def _ramp(self, request: RampRate) -> RateRamp:
        learner, rates, losses = self._new(request), [], []
        size = update_size(request.settings)
        for place in range(request.num_steps):
            share = place / (request.num_steps - 1)
            rates.append(request.least_rate * (request.most_rate / request.least_rate) ** share)
            learner.step(rate=rates[-1], batch_size=size)
            losses.append(learner.evaluate())
            if losses[-1] > BLOWN_UP * losses[0]:
                break
        blown = losses[-1] > BLOWN_UP * losses[0]
        seconds = STEP_SECONDS * len(rates)
        return RateRamp(rates=rates, losses=losses, diverged=blown, num_samples=size * len(rates), seconds=seconds)

    def _trunk(self, request: GrowTrunk | BranchBatch, to_step: int) -> tuple[FakeLearner, int]:
        """The trunk's state at that update, and how many updates it had to be grown."""
        settings = request.settings
        name = (request.fraction, *sorted((k, str(v)) for k, v in settings.items()))
        states = self._trunks.setdefault(name, {})
        from_step = max((step for step in states if step <= to_step), default=0)
        learner = states[from_step].copy() if from_step else self._new(request)
        for step in range(from_step, to_step):
            climb = min(1.0, (step + 1) / max(1, int(settings["warmup_steps"])))
            learner.step(rate=climb * float(settings["learning_rate"]), batch_size=update_size(settings))
        states[to_step] = learner.copy()
        return learner, to_step - from_step

    def _grow(self, request: GrowTrunk) -> Grown:
        learner, grown = self._trunk(request, request.to_step)
        size, rate = update_size(request.settings), float(request.settings["learning_rate"])
        _cool(learner, rate, size, request.cooldown_steps)
        noise = gradient_squares(learner.b_crit, size, request.to_step - grown, request.to_step, int(learner.seed))
        return self._grown(learner, size * (grown + request.cooldown_steps), grown, noise)

    def _branch(self, request: BranchBatch) -> Grown:
        learner, grown = self._trunk(request, request.from_step)
        size = request.batch_size * request.accumulation_steps
        for _ in range(request.num_steps - request.cooldown_steps):
            learner.step(rate=request.learning_rate, batch_size=size)
        _cool(learner, request.learning_rate, size, request.cooldown_steps)
        return self._grown(learner, size * request.num_steps + update_size(request.settings) * grown, grown)

    def _run(self, request: RunTrial) -> Trial:
        """A run at the settings' constant rate over their epochs of 10,000 samples."""
        settings, size = request.settings, update_size(request.settings)
        learner, epoch = self._new(request), max(1, NUM_SAMPLES // size)
        every, best, waited, found = request.evaluate_steps or epoch, math.inf, 0, []
        reason: Reason = "finished"
        for step in range(1, epoch * int(settings["num_epochs"]) + 1):
            learner.step(rate=float(settings["learning_rate"]), batch_size=size)
            seconds = STEP_SECONDS * step
            is_last = request.max_seconds is not None and seconds >= request.max_seconds
            if step % every == 0 or is_last:
                loss = learner.evaluate()
                score = self.score(loss)
                seen = Evaluated(
                    step=step, epoch=step / epoch, seconds=seconds, loss=loss, score=score, train_loss=loss
                )
                found.append(seen)
                best, waited = (loss, 0) if loss < best else (best, waited + 1)
            if learner.evaluate() > BLOWN_UP * learner.start_loss:
                reason = "diverged"
            elif request.patience is not None and waited >= request.patience:
                reason = "patience"
            elif is_last:
                reason = "budget"
            if reason != "finished":
                break
        return Trial(
            stopped_because=reason,
            num_steps=learner.num_updates,
            num_samples=learner.num_samples,
            seconds=STEP_SECONDS * learner.num_updates,
            samples_per_second=size / STEP_SECONDS,
            evaluations=found,
            data_wait_share=self.data_wait_share,
            utilisation=size / (size + HALF_BUSY),
        )

    def _grown(
        self, learner: FakeLearner, paid_samples: int, grown_steps: int, noise: Mapping[str, Any] | None = None
    ) -> Grown:
        loss = learner.evaluate()
        diverged = not math.isfinite(loss) or loss > BLOWN_UP * learner.start_loss
        return Grown(
            diverged=diverged,
            loss=None if diverged else loss,
            score=None if diverged else self.score(loss),
            num_steps=learner.num_updates,
            num_samples=learner.num_samples,
            paid_samples=paid_samples,
            grown_steps=grown_steps,
            grown_seconds=STEP_SECONDS * grown_steps,
            **(noise or {}),
        )


def gradient_squares(critical: float, size: int, before: int, to_step: int, seed: int) -> dict[str, Any]:
    """Squares of planted gradients, |g_B|^2 = 1 + critical / B in the mean, of one update in eight."""
    rng, num = random.Random(f"{seed} {before} {to_step}"), (to_step - before) // 8
    if size % 2 or not num:
        return {}
    halves = [[1 + 2 * critical / size * rng.gammavariate(20, 1 / 20) for _ in range(num)] for _ in range(2)]
    small = halves[0]
    big = [(1 + (first + second) / 2) / 2 for first, second in zip(*halves, strict=True)]
    return {"noise_sizes": (size // 2, size), "small_squares": small, "big_squares": big}


def _cool(learner: FakeLearner, rate: float, batch_size: int, num_steps: int) -> None:
    for step in range(num_steps):
        learner.step(rate=rate * (1 - step / num_steps), batch_size=batch_size)
