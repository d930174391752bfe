"""Planted training: runs that end at once with a known score."""

from dataclasses import dataclass
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
