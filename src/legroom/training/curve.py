"""The curve of a run: mean losses over equal numbers of updates, few enough to be drawn, however long the run is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

MAX_POINTS = 400
"""At so many, neighbours are joined, and from then on a point stands for twice as many updates."""


@dataclass(slots=True, kw_only=True)
class Curve:
    """Points so far, and the updates that make no whole one yet: plain values, which a checkpoint carries."""

    stride: int = 1
    """Updates that a point stands for."""
    step: list[int] = field(default_factory=list)
    """The last update of each point; the other lists are of the same points."""
    seconds: list[float] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)
    """Mean over the updates of the point."""
    rate: list[float] = field(default_factory=list)
    """Of the last update of the point."""
    losses: list[float] = field(default_factory=list)
    """Of the updates since the last point."""
    last_seconds: float = 0.0

    def extend(self, losses: Sequence[float], step: int, seconds: float, rate: Callable[[int], float]) -> None:
        """Take in the losses of the updates up to `step`, made until `seconds`; `rate` tells that of an update."""
        pace = (seconds - self.last_seconds) / len(losses)
        for number, loss in enumerate(losses, start=1):
            self.losses.append(loss)
            if len(self.losses) >= self.stride:
                place = step - len(losses) + number
                self._add(place, self.last_seconds + number * pace, rate(place))
        self.last_seconds = seconds

    def _add(self, step: int, seconds: float, rate: float) -> None:
        self.step.append(step)
        self.seconds.append(seconds)
        self.loss.append(sum(self.losses) / len(self.losses))
        self.rate.append(rate)
        self.losses = []
        if len(self.step) == MAX_POINTS:
            self._join()

    def _join(self) -> None:
        self.stride *= 2
        self.loss = [(one + other) / 2 for one, other in zip(self.loss[::2], self.loss[1::2], strict=True)]
        self.step, self.seconds, self.rate = self.step[1::2], self.seconds[1::2], self.rate[1::2]
