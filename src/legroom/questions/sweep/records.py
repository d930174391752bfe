"""What `sweep` asks of children: training runs, one for each point of a grid. Their records lie beside the loop."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from legroom.training.records import Train

RECORDS = ()
"""None of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepQuestion:
    """All that advice needs besides the records; the logbook keeps it."""

    device: str
    settings: Mapping[str, Any]
    """Of every trial, but for what the grid changes."""
    batch_sizes: tuple[int, ...]
    learning_rates: tuple[float, ...]
    num_workers: tuple[int, ...]
    patience: int
    """Evaluations without gain that end a trial."""
    watch: Literal["loss", "score"]
    """What must gain, and by which trials are ranked."""
    goal: Literal["max", "min"]
    max_seconds: float | None = None
    together: int = 1
    variables: Mapping[str, str] = field(default_factory=dict)
    """Of the environment of each trial."""
    left_out: tuple[int, ...] = ()
    """Batch sizes that were asked for and are more than the data has."""

    def trials(self) -> list[Train]:
        """The runs, those of large batches first: they are short, and tell early what memory holds."""
        grid = [
            (size, rate, workers)
            for size in sorted(self.batch_sizes, reverse=True)
            for workers in self.num_workers
            for rate in self.learning_rates
        ]
        return [self._trial(batch_size=b, learning_rate=r, num_workers=w) for b, r, w in grid]

    def _trial(self, **point: Any) -> Train:
        return Train(
            device=self.device,
            settings={**self.settings, **point},
            max_seconds=self.max_seconds,
            patience=self.patience,
            watch=self.watch,
            variables=dict(self.variables),
        )


QUESTION = SweepQuestion
