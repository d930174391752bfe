"""How far a run is and how its loss fell: plain values, which a checkpoint carries as they are."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

MAX_POINTS = 400
"""Points of a curve: at so many, neighbours are joined, and from then on a point stands for twice as many updates."""


@dataclass(slots=True, kw_only=True)
class Progress:
    """Counters of a run, earlier parts of a resumed one included."""

    step: int = 0
    """Updates made."""
    epoch: int = 0
    """Epochs ended."""
    position: int = 0
    """Batches of this epoch used."""
    ahead: int = 0
    """Samples by which those batches are more than were used: the run went on with batches of another size."""
    num_samples: int = 0
    seconds: float = 0.0
    """Training and evaluating."""
    training_seconds: float = 0.0
    waited_seconds: float = 0.0
    """Of the training, waiting for batches."""
    loss_sum: float = 0.0
    num_losses: int = 0
    """Updates since the last evaluation, and the sum of their losses."""
    last_loss: float | None = None

    @property
    def wait_share(self) -> float:
        """Share of training time spent waiting for batches."""
        return self.waited_seconds / self.training_seconds if self.training_seconds else 0.0

    @property
    def samples_per_second(self) -> float:
        """While training."""
        return self.num_samples / max(self.training_seconds, 1e-9)

    def num_epochs(self, num_batches: int | None) -> float:
        """Epochs so far, the begun one by its share where its length is known."""
        return self.epoch + (self.position / num_batches if num_batches else 0.0)

    def take_train_loss(self) -> float | None:
        """Mean loss of the updates since this was last asked."""
        mean = self.loss_sum / self.num_losses if self.num_losses else None
        self.loss_sum, self.num_losses = 0.0, 0
        return mean


@dataclass(slots=True, kw_only=True)
class Curve:
    """Mean losses over equal numbers of updates, few enough to be drawn, however long the run is."""

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
