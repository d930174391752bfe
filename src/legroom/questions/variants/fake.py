"""Variants with planted gains, some of which spoil what is learned."""

import math
import random
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from legroom.questions.variants.records import (
    BLOWN_UP,
    VARIANTS,
    Names,
    TimeVariant,
    TrainVariant,
    VariantLosses,
    VariantTimed,
)
from legroom.requests import Request

NUM_PAIRS = 9


class FakeVariants:
    """Answers of a machine on which each variant makes steps faster by a planted factor.

    >>> fake = FakeVariants(ratios={"bf16": 2.0})
    >>> asked = TimeVariant(device="cpu", settings={}, changes={"precision": "bf16"})
    >>> fake.time(asked).own_seconds[0] / fake.time(asked).variant_seconds[0]
    2.0
    """

    ANSWERS: ClassVar[tuple[type[Request[Any]], ...]] = (TimeVariant, TrainVariant)

    def __init__(
        self,
        *,
        ratios: Mapping[str, float] | None = None,
        together: float = 1.0,
        noise: float = 0.0,
        step_seconds: float = 0.02,
        compile_seconds: float = 30.0,
        outcomes: Mapping[str, tuple[str, str]] | None = None,
        spoils: Collection[str] = (),
        diverges: Collection[str] = (),
        memory_ratios: Mapping[str, float] | None = None,
        seed_spread: float = 0.05,
    ) -> None:
        self.ratios, self.together, self.noise = ratios or {}, together, noise
        """together: factor on the product of gains where several are joined."""
        self.step_seconds, self.compile_seconds = step_seconds, compile_seconds
        self.outcomes = outcomes or {}
        """Outcome and reason of those that cannot be timed."""
        self.spoils, self.diverges = spoils, diverges
        self.memory_ratios, self.seed_spread = memory_ratios or {}, seed_spread
        self._random = random.Random(0)

    def answer(self, request: Any) -> tuple[Any, float]:
        """What a child would report, and the seconds that would take."""
        if isinstance(request, TimeVariant):
            start = self.compile_seconds if "compile" in _names(request) else 0.0
            return self.time(request), request.seconds + min(start, request.limit_seconds)
        return self.train(request), request.num_steps * self.step_seconds

    def time(self, request: TimeVariant) -> VariantTimed:
        """The planted factors, with noise on every turn."""
        names = _names(request)
        failed = next((self.outcomes[name] for name in names if name in self.outcomes), None)
        if failed:
            return VariantTimed(outcome=failed[0], why=failed[1])  # type: ignore[arg-type]
        if "compile" in names and self.compile_seconds > request.limit_seconds:
            return VariantTimed(outcome="too_long", why="planted: compiling takes longer than allowed")
        ratio = math.prod(self.ratios.get(name, 1.0) for name in names) * (self.together if len(names) > 1 else 1.0)
        more = math.prod(self.memory_ratios.get(name, 1.0) for name in names)
        return VariantTimed(
            own_seconds=[self._noisy(self.step_seconds) for _ in range(NUM_PAIRS)],
            variant_seconds=[self._noisy(self.step_seconds / ratio) for _ in range(NUM_PAIRS)],
            start_seconds=self.compile_seconds if "compile" in names else 0.0,
            own_peak_bytes=10**9,
            variant_peak_bytes=int(more * 10**9),
        )

    def train(self, request: TrainVariant) -> VariantLosses:
        """A loss that falls; seeds shift it, a variant that spoils it lets it fall half as fast."""
        names = _names(request)
        if any(name in self.diverges for name in names):
            return VariantLosses(losses=[2.0, BLOWN_UP])
        shift = 1 + self.seed_spread * random.Random(int(request.settings["seed"])).uniform(-1, 1)
        slow = 0.5 if any(name in self.spoils for name in names) else 1.0
        return VariantLosses(losses=[2.0 * shift * math.exp(-slow * step / 20) for step in range(request.num_steps)])

    def _noisy(self, seconds: float) -> float:
        return seconds * self._random.lognormvariate(0, self.noise)


def _names(request: TimeVariant | TrainVariant) -> Names:
    return tuple(name for name, change in VARIANTS.items() if change.items() <= request.changes.items())
