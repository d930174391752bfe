"""The rates of a ramp: each update's is a little above the last, by fewer and larger steps where time runs short."""

from collections.abc import Callable

from legroom.clock import Clock, monotonic
from legroom.questions.rate.records import RampRate

LEAST_STEPS = 30
"""Of a ramp, however slow its updates are: with fewer nothing is smooth."""


class Climb:
    """Exponential from the least rate to the most; slow updates make it steeper, so that it still gets there.

    >>> climb = Climb(RampRate(device="cpu", settings={}, least_rate=1e-3, most_rate=1.0, num_steps=4), lambda: 0.0)
    >>> [round(climb.at(step), 4) for step in range(4)]
    [0.001, 0.01, 0.1, 1.0]
    """

    def __init__(self, request: RampRate, clock: Clock = monotonic) -> None:
        self.request, self.clock, self.rates = request, clock, [request.least_rate]
        self.started = clock()
        self.first_end: float | None = None
        """When the first update was over: it takes longer than all others."""

    def at(self, step: int) -> float:
        """The rate of an update that begins now; each is asked for in turn."""
        if step < len(self.rates):
            return self.rates[step]
        if self.first_end is None:
            self.first_end = self.clock()
        last = self.rates[-1]
        self.rates.append(last * (self.request.most_rate / last) ** (1 / self._num_left()))
        return self.rates[-1]

    def _num_left(self) -> int:
        """Updates to the end of the ramp, this one included."""
        done, wanted = len(self.rates), self.request.num_steps - len(self.rates)
        if self.request.max_seconds is None or done < 2 or self.first_end is None:
            return max(1, wanted)
        now = self.clock()
        pace = (now - self.first_end) / (done - 1)
        affords = (self.started + self.request.max_seconds - now) / pace if pace > 0 else wanted
        return max(1, LEAST_STEPS - done, min(wanted, int(affords)))

    def until_there(self, ends: Callable[[list[float]], bool]) -> Callable[[list[float]], bool]:
        """Whether losses say that it should end, or it has come to the most rate."""
        return lambda losses: ends(losses) or self.rates[-1] >= (1 - 1e-9) * self.request.most_rate
