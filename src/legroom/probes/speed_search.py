"""Times a job's steps: finds the range of sizes, chooses which tell the most, and measures these in rounds."""

from collections.abc import Callable
from contextlib import suppress

from legroom.errors import LegroomError, NothingMeasured
from legroom.laws.clocks import fit_steps
from legroom.laws.sizes import choose_sizes, grid
from legroom.laws.speed import knee_of
from legroom.probes.session import Session
from legroom.probes.size_range import Range, find_range, scout
from legroom.records import (
    KEPT_SHARE,
    JobDescription,
    MeasureDevice,
    MeasurePadding,
    SpeedQuestion,
    StepTime,
    StepTimes,
)

NUM_UTILISATION_SIZES = 14
NUM_LOOKS = 4
FETCHING = 0.1
"""Share of the core seconds in the system from which on keeping memory is tried."""


def measure_speed(session: Session, question: SpeedQuestion, description: JobDescription) -> Range:
    """Measure until the logbook holds what the advice needs; returns the range of sizes that can be run."""
    session.progress("measuring the device", 0.04)
    session.ask(MeasureDevice(device=question.device))
    if question.batch_sizes:
        found, sizes = _named(session, question)
    else:
        found = find_range(session, question, description)
        sizes = _choose(session, question, description, found)
    session.progress(f"timing {len(sizes)} sizes in rounds", 0.4)
    result = session.ask(question.request(tuple(sizes), seconds=question.seconds, close=True))
    assert isinstance(result, StepTimes)
    _time_kept(session, question, result.points)
    if description.uneven and not description.own_loader:
        session.progress("collating batches", 0.95)
        session.ask(MeasurePadding(batch_size=description.baseline["batch_size"], seed=question.seed))
    return found


def _time_kept(session: Session, question: SpeedQuestion, points: list[StepTime]) -> None:
    """The fastest size and the largest in a process that keeps its memory, where fetching it anew takes a share."""
    ran = [point for point in points if point.outcome == "measured"]
    ends = {point.batch_size: point for point in (max(ran, key=lambda p: p.samples_per_second), ran[-1])} if ran else {}
    if not any(point.system_share > FETCHING for point in ends.values()):
        return
    session.progress("with memory kept", 0.9)
    with suppress(LegroomError):  # as where more is kept than there is: a note is lost, and no timing
        session.ask(question.request(tuple(ends), seconds=KEPT_SHARE * question.seconds, keeps_memory=True))


def _named(session: Session, question: SpeedQuestion) -> tuple[Range, list[int]]:
    """The sizes the user named that run; each that does not is told."""
    runs: list[int] = []
    notes = []
    for size in sorted(set(question.batch_sizes)):
        session.progress(f"batch of {size:,}", 0.1)
        outcome = scout(session, question, size).outcome
        if outcome == "measured":
            runs.append(size)
        else:
            why = "does not fit the memory" if outcome == "out_of_memory" else "is no batch of the job's own loader"
            notes.append(f"A batch of {size:,} {why}; the other sizes were timed without it")
    if not runs:
        raise NothingMeasured(f"None of the sizes can be run. {notes[0]}. Name smaller ones with --batch-sizes")
    return Range(runs[0], runs[-1], "no larger one was named", notes), runs


def _choose(session: Session, question: SpeedQuestion, description: JobDescription, found: Range) -> list[int]:
    """Four sizes for the law, those that check it, and the job's own."""
    sizes, looks = grid(found.low, found.high), dict[int, StepTime]()

    def look(size: int) -> StepTime:
        if size not in looks:
            looks[size] = scout(session, question, size)
        return looks[size]

    chosen = choose_sizes(sizes, lambda size: look(size).median_seconds)
    knee = _close_in(chosen, sizes, look, question.share)
    more = {min(max(description.baseline["batch_size"], found.low), found.high), knee, *odd_sizes(knee, sizes)}
    if question.rule == "utilisation":
        more |= set([size for size in sizes if size & (size - 1) == 0][-NUM_UTILISATION_SIZES:])
    return sorted({*chosen, *more})


def _close_in(chosen: list[int], sizes: list[int], look: Callable[[int], StepTime], share: float) -> int:
    """The knee by the law; each one foretold is looked at and joins the sizes chosen, until it stays."""
    for _ in range(NUM_LOOKS):
        law = fit_steps([look(size) for size in chosen])
        knee = knee_of(law.samples_per_second, sizes, share)
        if knee in chosen:
            break
        chosen.append(knee)
    return knee


def odd_sizes(near: int, sizes: list[int]) -> list[int]:
    """A power of two near that size, with a multiple of 8 and an odd number right below it.

    >>> odd_sizes(96, [1, 1024]), odd_sizes(4, [1, 1024])
    ([120, 127, 128], [])
    """
    power = 1 << (near - 1).bit_length()
    power = power if power <= sizes[-1] else power >> 1
    return [size for size in (power - 8, power - 1, power) if size >= sizes[0]] if power >= 32 else []
