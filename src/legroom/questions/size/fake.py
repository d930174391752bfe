"""Planted trials: curves whose minimum obeys a known law of parameters and data."""

import itertools
import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from legroom.errors import JobRaised
from legroom.questions.size.curve import WITHIN, evaluation_steps, smooth
from legroom.questions.size.records import CountSizes, SizesCounted, SizeTrained, TrainSize
from legroom.requests import Request

BENT = 0.3
"""How steeply ln loss rises with the square of ln updates from the minimum."""
FIRST = 4


@dataclass(kw_only=True)
class FakeSizes:
    """Trials by a planted law.

        steps(M, D) = a D^k1 / M^k2 + b         updates to within 1 % of the minimum, with noise in ln
        loss(M, D)  = floor + M^-1/2 + D^-1/4   at the minimum, about which ln loss is a parabola in ln updates

    >>> fake = FakeSizes(a=40.0, k1=0.8, k2=0.5, b=60.0)
    >>> round(fake.steps(10_000, 1_000))
    160
    """

    ANSWERS: ClassVar[tuple[type[Request[Any]], ...]] = (CountSizes, TrainSize)

    a: float = 40.0
    k1: float = 0.8
    k2: float = 0.5
    b: float = 60.0
    noise: float = 0.0
    """Of the updates, in ln, another for each seed."""
    noise_seed: int = 0
    """Other noise at every trial."""
    floor: float = 0.5
    own: int | None = 128
    names: tuple[str, ...] = ("depth", "width")
    num_samples: int = 10_000
    unit: int = 32
    """Parameters are this many times the square of the width."""
    same_size: bool = False
    """Whether every width gives the same model."""
    floor_seconds: float = 1e-4
    parameters_per_second: float = 1e9
    most_parameters: float = math.inf
    """That fit into memory."""
    bytes_per_parameter: float = 16.0
    """Of memory."""
    diverges: bool = False
    never_settles_above: float = math.inf
    """Updates to the minimum beyond which a trial's time is over first."""
    faster_adam: float = 1.0
    """Times fewer updates with the solver adam."""
    good_rates: Mapping[str, float] = field(default_factory=dict)
    """Of a solver, by its name: at other rates its losses lie above, by a tenth of the squared ln."""
    refuses: tuple[int, ...] = ()
    """Values at which no model can be made."""
    raises_at: tuple[int, ...] = ()
    """Values at which training raises."""
    at_chance: tuple[int, ...] = ()
    """Values that learn nothing."""
    learns_from: int = 0
    """Samples: on fewer the loss only rises."""
    never_settles_seeds: tuple[int, ...] = ()
    """Seeds whose trials on the whole data are over before their minimum."""
    asked: list[TrainSize] = field(default_factory=list)

    def parameters(self, value: int) -> int:
        """At that width."""
        return self.unit * (100 if self.same_size else value) ** 2

    def steps(self, num_parameters: float, num_samples: float) -> float:
        """The planted truth."""
        return float(self.a * num_samples**self.k1 / num_parameters**self.k2 + self.b)

    def loss(self, num_parameters: float, num_samples: float) -> float:
        """The planted truth."""
        return float(self.floor + num_parameters**-0.5 + num_samples**-0.25)

    def answer(self, request: Any) -> tuple[Any, float]:
        """What a child would report, and the seconds that would take."""
        if isinstance(request, CountSizes):
            return self.count(request), 0.1
        self.asked.append(request)
        trained = self.train(request)
        return trained, trained.seconds

    def count(self, request: CountSizes) -> SizesCounted:
        """Parameters of each size that it does not refuse."""
        refused = [value for value in request.values if value in self.refuses]
        if refused and not request.skips:
            raise JobRaised(f"planted: no model of {refused[0]}")
        counts = [self.parameters(value) for value in request.values if value not in refused]
        why = f"at {refused[-1]} it raised ValueError: planted" if refused else ""
        return SizesCounted(names=list(self.names), own=self.own, num_parameters=counts, refused=refused, why=why)

    def train(self, request: TrainSize) -> SizeTrained:
        """A trial's record."""
        if request.value in self.raises_at:
            raise JobRaised(f"planted: {request.value} cannot be trained")
        size, samples = self.parameters(request.value), round(request.fraction * self.num_samples)
        if size > self.most_parameters:
            return SizeTrained(outcome="out_of_memory")
        if self.diverges:
            return SizeTrained(outcome="diverged", num_parameters=size, num_samples=samples, seconds=1.0)
        pace = self.floor_seconds + size / self.parameters_per_second
        needed = self._needed(request, size, samples)
        least, most = self._least(request, size, samples), self._most_steps(request, needed, pace)
        steps, losses = self._curve(needed, least, most) if samples >= self.learns_from else self._rising(most)
        curve = smooth(steps, losses)
        return SizeTrained(
            left_chance=request.value not in self.at_chance,
            outcome="only_rose" if curve.only_rose() else "settled" if curve.has_settled() else "unsettled",
            steps=steps,
            losses=losses,
            cooled_steps=steps[5::6] if request.cools else [],
            cooled_losses=[0.9 * loss for loss in losses[5::6]] if request.cools else [],
            num_parameters=size,
            num_samples=samples,
            step_seconds=pace,
            peak_bytes=round(200_000_000 + self.bytes_per_parameter * size),
            seconds=pace * steps[-1],
        )

    def _least(self, request: TrainSize, size: int, samples: int) -> float:
        rate = float(request.settings.get("learning_rate", 1.0))
        off = math.log(rate / self.good_rates.get(request.solver, rate))
        return self.loss(size, samples) * math.exp(0.1 * off**2)

    def _most_steps(self, request: TrainSize, needed: float, pace: float) -> float:
        ends = request.fraction == 1 and request.settings["seed"] in self.never_settles_seeds
        return min(request.max_seconds / pace, needed if ends else math.inf)

    def _needed(self, request: TrainSize, size: int, samples: int) -> float:
        trial = f"{request.value} {request.fraction} {request.settings['seed']} {request.solver}"
        chance = random.Random(f"{trial} {self.noise_seed}" if self.noise_seed else trial)
        faster = self.faster_adam if request.solver == "adam" else 1.0
        return self.steps(size, samples) / faster * math.exp(self.noise * chance.gauss(0.0, 1.0))

    def _curve(self, needed: float, least: float, most_steps: float) -> tuple[list[int], list[float]]:
        """Evaluations until the curve has settled, or so many updates are over."""
        lowest = math.log(needed) + math.sqrt(math.log(1 + WITHIN) / BENT)
        limit = min(most_steps, self.never_settles_above)
        steps: list[int] = []
        losses: list[float] = []
        for step in itertools.takewhile(lambda step: step <= limit or len(steps) < FIRST, evaluation_steps(FIRST)):
            steps.append(step)
            losses.append(least * math.exp(BENT * (math.log(step) - lowest) ** 2))
            if step > needed and smooth(steps, losses).has_settled():
                break
        return steps, losses

    def _rising(self, most_steps: float) -> tuple[list[int], list[float]]:
        """Evaluations of a model that overfits from the first on."""
        steps: list[int] = []
        losses: list[float] = []
        for step in itertools.takewhile(lambda step: step <= most_steps or len(steps) < FIRST, evaluation_steps(FIRST)):
            steps.append(step)
            losses.append(2.0 + step / 50)
            if smooth(steps, losses).only_rose():
                break
        return steps, losses
