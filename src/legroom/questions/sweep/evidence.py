"""What the records say of each point of the grid; search and advice both stand on it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from legroom.logbook import Entry
from legroom.questions.sweep.records import SweepQuestion
from legroom.training.records import Evaluated, Train, Trained
from legroom.training.stopping import reaches

MARGIN = 1.2
"""On memory forecast from another batch size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One trial and what came of it."""

    request: Train
    trained: Trained
    goal: str
    watch: str

    @property
    def batch_size(self) -> int:
        """Samples of a forward pass."""
        return int(self.request.settings["batch_size"])

    @property
    def learning_rate(self) -> float:
        """The peak rate."""
        return float(self.request.settings["learning_rate"])

    @property
    def best(self) -> Evaluated | None:
        """The first of its best evaluations: what early stopping keeps. Of a trial that diverged, the best before."""
        known = [found for found in self.trained.evaluations if getattr(found, self.watch) is not None]
        if not known:
            return None
        pick = max if self.goal == "max" else min
        top = pick(getattr(found, self.watch) for found in known)
        return next(found for found in known if getattr(found, self.watch) == top)

    @property
    def value(self) -> float | None:
        """What it is ranked by."""
        return None if self.best is None else float(getattr(self.best, self.watch))

    def first(self, target: float) -> Evaluated | None:
        """The evaluation that first was as good."""
        found = self.trained.evaluations
        return next((each for each in found if reaches(getattr(each, self.watch), target, goal=self.goal)), None)


def read_cells(entries: Iterable[Entry], question: SweepQuestion) -> list[Cell]:
    """The grid's trials that are known, in the order of the grid; the last record of each."""
    known = [entry for entry in entries if isinstance(entry.request, Train)]
    cells = []
    for trial in question.trials():
        found = [entry.result for entry in known if entry.request == trial]
        if found:
            cells.append(Cell(request=trial, trained=found[-1], goal=question.goal, watch=question.watch))
    return cells


def best_cell(cells: Sequence[Cell]) -> Cell | None:
    """The best score; of equal ones the one that had it first."""
    known = [cell for cell in cells if cell.value is not None and cell.best is not None]
    if not known:
        return None
    sign = 1 if known[0].goal == "max" else -1
    return max(known, key=lambda cell: (sign * (cell.value or 0.0), -(cell.best.seconds if cell.best else 0.0)))


def bytes_needed(cells: Sequence[Cell], batch_size: int) -> float | None:
    """Memory of a trial at that size, from those before; None where there are none.

    Below a size that ran it takes no more than that one; above, at most in proportion.
    """
    known = [(cell.batch_size, cell.trained.peak_bytes) for cell in cells if cell.trained.peak_bytes]
    same = [taken for size, taken in known if size == batch_size]
    if same or not known:
        return max(same) if same else None
    return min(MARGIN * taken * max(1.0, batch_size / size) for size, taken in known)
