"""Planted training: runs that end at once with a known score, and a learner that obeys a known law of its settings."""

import copy
import math
import random
from dataclasses import dataclass, field
from typing import Any, ClassVar

from legroom.requests import Request
from legroom.training.records import Evaluated, Train, Trained

STEP_SECONDS = 0.01
HALVED = 100
"""Updates after which the loss of a planted run is half of what it was."""


@dataclass(kw_only=True)
class FakeRuns:
    """Runs whose loss falls as 1 / (1 + updates / 100), evaluated once, at their end.

    >>> settings = {"batch_size": 32, "learning_rate": 0.1}
    >>> FakeRuns().train(Train(device="cpu", settings=settings, num_steps=100)).last_loss
    0.5
    """

    ANSWERS: ClassVar[tuple[type[Request[Any]], ...]] = (Train,)

    chance: float | None = None
    """The score of a model that learned nothing; a run of 100 updates scores 0.5."""

    def answer(self, request: Train) -> tuple[Trained, float]:
        """What a child would report, and the seconds that would take."""
        trained = self.train(request)
        return trained, trained.seconds

    def train(self, request: Train) -> Trained:
        """The run's record."""
        num_steps, batch_size = request.num_steps or HALVED, int(request.settings["batch_size"])
        seconds, loss = STEP_SECONDS * num_steps, 1 / (1 + num_steps / HALVED)
        found = Evaluated(step=num_steps, epoch=1.0, seconds=seconds, loss=loss, score=1 - loss, train_loss=loss)
        return Trained(
            stopped_because="finished",
            num_steps=num_steps,
            num_epochs=1.0,
            num_samples=num_steps * batch_size,
            seconds=seconds,
            samples_per_second=batch_size / STEP_SECONDS,
            data_wait_share=0.0,
            evaluations=[found],
            last_loss=loss,
            learning_rate=float(request.settings["learning_rate"]),
            goal="max",
            chance=self.chance,
        )


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

    After the same updates at any constant rate, ln(loss) is a parabola in ln(rate) with its bottom at best_rate.

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

    def step(self, *, rate: float, batch_size: int) -> None:
        """One update."""
        self.progress += self._gain(rate) / self.updates_needed(batch_size)
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

    def _gain(self, rate: float) -> float:
        return max(0.0, 1 - (math.log(rate / self.best_rate) / REACH) ** 2) if rate > 0 else 0.0

    def _displace(self, pull: float, batch_size: int) -> None:
        # Displaced comes to pull^2 w^2 / (1 - (1 - pull)^2) = pull w^2 / (2 - pull): with w^2 = 19 noise it is `noise`.
        width = math.sqrt((2 - PULL) / PULL * self.noise * self.b_crit / batch_size)
        self._displaced = [(1 - pull) * x + pull * width * self._random.gauss(0.0, 1.0) for x in self._displaced]
