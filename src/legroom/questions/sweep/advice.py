"""What the sweep came to, from the records alone."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from legroom.environments import environment_text
from legroom.errors import JobRaised, OutOfMemory
from legroom.logbook import Records
from legroom.questions.base import Recommendation
from legroom.questions.sweep.answer import SweepAnswer
from legroom.questions.sweep.evidence import Cell, best_cell, read_cells
from legroom.questions.sweep.records import SweepQuestion
from legroom.training.stopping import reaches

NEAR = 0.01
"""Share of the best score, or loss, within which another is as good."""


def advise(records: Records, question: SweepQuestion) -> SweepAnswer:
    """Every point, the best of them, and the one that is soonest near it."""
    cells = read_cells(records.entries, question)
    failed = [cell for cell in cells if cell.trained.failure is not None]
    if cells and len(failed) == len(cells):
        _refuse_all(failed)
    best = best_cell(cells)
    return SweepAnswer(
        job=records.head.job,
        machine=records.head.machine,
        seconds=records.seconds(),
        notes=[*records.notes, *records.description().notes, *_notes(cells, failed, question)],
        not_measured=_not_measured(cells, question),
        recommendations=_recommendations(cells, best),
        device=question.device,
        points=[_point(cell) for cell in cells],
        best=None if best is None else _point(best),
        fastest=_fastest(cells, best),
        watch=question.watch,
        patience=question.patience,
        num_samples=sum(cell.trained.num_samples for cell in cells),
        num_failed=len(failed),
        together=question.together,
        settings=dict(question.settings),
    )


def _point(cell: Cell) -> dict[str, Any]:
    best, trained = cell.best, cell.trained
    return {
        "batch_size": cell.batch_size,
        "learning_rate": cell.learning_rate,
        "num_workers": cell.request.settings["num_workers"],
        "score": None if best is None else best.score,
        "loss": None if best is None else best.loss,
        "seconds": None if best is None else best.seconds,
        "best_step": None if best is None else best.step,
        "utilisation": trained.utilisation,
        "num_steps": trained.num_steps,
        "num_samples": trained.num_samples,
        "memory_bytes": trained.peak_bytes,
        "train_seconds": trained.seconds,
        "samples_per_second": trained.samples_per_second,
        "stopped_because": trained.stopped_because,
        "failure": trained.failure,
        "evaluations": [asdict(found) for found in trained.evaluations],
    }


def near_best(best: Cell) -> float:
    """The value from which on a score is as good as the best."""
    assert best.value is not None
    return best.value - NEAR * abs(best.value) * (1 if best.goal == "max" else -1)


def _fastest(cells: Sequence[Cell], best: Cell | None) -> dict[str, Any] | None:
    if best is None:
        return None
    target = near_best(best)
    hits = [(found.seconds, place) for place, cell in enumerate(cells) if (found := cell.first(target)) is not None]
    cell = cells[min(hits)[1]]
    found = cell.first(target)
    assert found is not None
    return {**_point(cell), "target": target, "seconds_to_target": found.seconds, "steps_to_target": found.step}


def _recommendations(cells: Sequence[Cell], best: Cell | None) -> list[Recommendation]:
    if best is None or best.best is None:
        return []
    good = [cell for cell in cells if reaches(cell.value, near_best(best), goal=best.goal)]
    because = (
        f"the best of {len(cells)} points: {best.watch} {best.value:.4g} after {best.best.step:,} updates; "
        f"{len(good)} points are within 1 % of it"
    )
    found = []
    for name in ("batch_size", "learning_rate"):
        values = sorted(getattr(cell, name) for cell in good)
        found.append(
            Recommendation(
                name=name,
                value=getattr(best, name),
                range=(values[0], values[-1]),
                because=because,
                evidence=["trained"],
            )
        )
    return found


def _notes(cells: Sequence[Cell], failed: Sequence[Cell], question: SweepQuestion) -> list[str]:
    notes = []
    if failed:
        first = failed[0]
        notes.append(
            f"{len(failed)} of {len(cells)} trials failed and are marked; the first, at batch {first.batch_size:,} and "
            f"rate {first.learning_rate:.3g}: {first.trained.failure}"
        )
    if diverged := [cell for cell in cells if cell.trained.stopped_because == "diverged"]:
        lowest = min(cell.learning_rate for cell in diverged)
        told = f"{_trials(len(diverged))} diverged, at rates from {lowest:.3g} on"
        if len(diverged) == len(cells):
            notes.append(f"{told}. Name lower --rates; where they diverge at any, look at the job's loss")
        else:
            notes.append(f"{told}; they count as far as they ran")
    if short := [cell for cell in cells if cell.trained.stopped_because in ("finished", "budget")]:
        notes.append(
            f"{_trials(len(short))} ended by epochs or seconds, not because the {question.watch} no longer gained: "
            "--epochs or --seconds would let them go on"
        )
    if question.together > 1:
        threads = f", each with {environment_text(question.variables)}" if question.variables else ""
        words = "their seconds are longer than they would be alone"
        notes.append(f"Up to {question.together} trials ran at once{threads}: {words}")
    return notes


def _not_measured(cells: Sequence[Cell], question: SweepQuestion) -> list[str]:
    missing = [f"Batches of {size:,}: the data has fewer samples" for size in question.left_out]
    if (num := len(question.trials()) - len(cells)) > 0:
        missing.append(f"{_trials(num)} not run yet; --resume goes on from here")
    return missing


def _trials(num: int) -> str:
    return "1 trial" if num == 1 else f"{num} trials"


def _refuse_all(failed: Sequence[Cell]) -> None:
    kind = OutOfMemory if all(cell.trained.stopped_because == "out_of_memory" for cell in failed) else JobRaised
    raise kind(f"Every one of {len(failed)} trials failed. The first: {failed[0].trained.failure}")
