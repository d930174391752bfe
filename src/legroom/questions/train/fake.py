"""Planted training: runs whose loss falls by a known law, in no time."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from legroom.requests import Request
from legroom.training.records import Evaluated, Reason, Train, Trained
from legroom.training.stopping import reaches

STEP_SECONDS = 0.01
RUN_BYTES, SAMPLE_BYTES = 100_000_000, 1_000_000
"""Memory of a run: by itself, and for each sample of a batch."""
HALVED = 100
"""Updates after which the loss of a planted run is half of what it was."""


@dataclass(kw_only=True)
class FakeRuns:
    """Runs whose loss falls as 1 / (1 + updates / 100) or as planted; the score is 1 - loss.

    >>> settings = {"batch_size": 32, "learning_rate": 0.1}
    >>> FakeRuns().train(Train(device="cpu", settings=settings, num_steps=100)).last_loss
    0.5
    """

    ANSWERS: ClassVar[tuple[type[Request[Any]], ...]] = (Train,)

    chance: float | None = None
    """The score of a model that learned nothing; a run of 100 updates scores 0.5."""
    loss: Callable[[Train, int], float] = lambda request, num_steps: 1 / (1 + num_steps / HALVED)
    """Of a run after so many updates."""
    step_seconds: Callable[[Train], float] = lambda request: STEP_SECONDS
    num_samples: int | None = None
    """Of an epoch; None: a run without a length in updates has 100 of them."""

    def answer(self, request: Train) -> tuple[Trained, float]:
        """What a child would report, and the seconds that would take."""
        trained = self.train(request)
        return trained, trained.seconds

    def train(self, request: Train) -> Trained:
        """The run's record."""
        batch_size, step_seconds = int(request.settings["batch_size"]), self.step_seconds(request)
        found, reason = self._evaluate(request, self._length(request, batch_size), step_seconds)
        last = found[-1]
        return Trained(
            stopped_because=reason,
            num_steps=last.step,
            num_epochs=1.0,
            num_samples=last.step * batch_size,
            seconds=last.seconds,
            samples_per_second=batch_size / step_seconds,
            data_wait_share=0.0,
            evaluations=found,
            last_loss=last.loss,
            learning_rate=float(request.settings["learning_rate"]),
            goal="max",
            chance=self.chance,
            utilisation=batch_size / (batch_size + HALVED),
            peak_bytes=RUN_BYTES + SAMPLE_BYTES * batch_size,
        )

    def _evaluate(self, request: Train, num_steps: int, step_seconds: float) -> tuple[list[Evaluated], Reason]:
        """All evaluations, up to one that meets the target where a run is looked at before its end."""
        every, found = request.evaluate_steps or num_steps, list[Evaluated]()
        for step in [*range(every, num_steps, every), num_steps]:
            loss, at = self.loss(request, step), step_seconds * step
            found.append(Evaluated(step=step, epoch=1.0, seconds=at, loss=loss, score=1 - loss, train_loss=loss))
            if request.target and request.evaluate_steps and _meets(found[-1], *request.target):
                return found, "target"
        return found, "finished"

    def _length(self, request: Train, batch_size: int) -> int:
        if request.num_steps is not None or self.num_samples is None:
            return request.num_steps or HALVED
        return self.num_samples // batch_size * int(request.settings["num_epochs"])


def _meets(found: Evaluated, name: str, value: float) -> bool:
    return reaches(getattr(found, name), value, goal="min" if name == "loss" else "max")
