"""Reads off the first looks which batch sizes can be timed: from one sample to what memory, time and the data allow.

The search asks for the look it `wants` until it wants none; advice reads the same looks from the logbook.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from legroom.errors import DoesNotFit, JobRaised, NothingMeasured
from legroom.questions.speed.batch_sizes import largest_on_grid
from legroom.questions.speed.records import SpeedQuestion, StepTime, StepTimes
from legroom.units import format_bytes, format_seconds

GROWTH = 4
MEMORY_SHARES = {"cpu": 0.6, "cuda": 0.88}
"""Of the memory the job could have; on a host other programs live there too."""
SLOW_SHARES = {"cpu": 0.05, "cuda": 0.08}
"""A step that takes more than this share of all the time there is cannot be repeated often enough."""
LOOK_STEPS = 4
"""Of a first look at the least: the job's own size, which runs today, is looked at where these are not longer than all
the time there is."""

Looks = Mapping[int, StepTimes]
"""A first look at one size, by size."""


@dataclass(frozen=True, slots=True)
class Range:
    """Sizes that ran in order, and why there are no others."""

    sizes: list[int]
    because: str = ""
    """What bounds it above."""
    notes: list[str] = field(default_factory=list)
    wants: int | None = None
    """The size to look at before more can be said; None where all is known."""
    must_run: bool = False
    """Whether an error of the job there leaves nothing to time."""


def read_range(looks: Looks, question: SpeedQuestion) -> Range:
    """The sizes the user named that run, or else a range grown from one sample."""
    return _named(looks, question) if question.batch_sizes else _grown(looks, question)


def _named(looks: Looks, question: SpeedQuestion) -> Range:
    """The sizes that run; each that does not is told."""
    ran: list[int] = []
    notes: list[str] = []
    for size in sorted(set(question.batch_sizes)):
        if size not in looks:
            return Range(ran, wants=size, must_run=True)
        outcome = looks[size].points[0].outcome
        if outcome == "measured":
            ran.append(size)
        else:
            why = "does not fit the memory" if outcome == "out_of_memory" else "is no batch of the job's own loader"
            notes.append(f"A batch of {size:,} {why}; the other sizes were timed without it")
    if not ran:
        raise NothingMeasured(f"None of the sizes can be run. {notes[0]}. Name smaller ones with --batch-sizes")
    return Range(ran, "no larger one was named", notes)


def _grown(looks: Looks, question: SpeedQuestion) -> Range:
    """Grow until memory, time or the data set ends it."""
    first = 2 if _raised(looks, 1) and question.ceiling > 1 else 1
    if first not in looks:
        return Range([], wants=first, must_run=first == min(2, question.ceiling))
    points = [_smallest(looks, first)]
    notes = [f"{looks[1].not_measured[0]}. Sizes were tried from 2 on"] if first > 1 else []
    ceiling, because = question.ceiling, question.ceiling_because
    while True:
        size, why = _next(points, question, ceiling)
        ran = [point.batch_size for point in points]
        if size <= ran[-1]:
            return Range(ran, why or because, notes)
        if size not in looks and ran[-1] < question.passing and question.passing in looks:
            size = question.passing  # where no time was left for those before it
        if size not in looks:
            return Range(ran, f"there was no time to look at {size:,} samples", notes, wants=size)
        if _raised(looks, size):
            return Range(ran, looks[size].not_measured[0], notes)
        point = looks[size].points[0]
        if point.outcome == "measured":
            points.append(point)
        else:
            ceiling, because = largest_on_grid(size - 1), f"{size:,} samples do not fit the memory"


def _raised(looks: Looks, size: int) -> bool:
    return size in looks and looks[size].points[0].outcome == "raised"


def _smallest(looks: Looks, size: int) -> StepTime:
    """One sample, or two where the job cannot train on one, as with batch norm."""
    point = looks[size].points[0]
    if point.outcome == "measured":
        return point
    if size > 1:
        raise JobRaised(looks[1].not_measured[0], facts={"batch_size": 1})
    why = "did not run" if point.outcome == "no_batch" else "ran out of memory"
    raise DoesNotFit(f"A step on a single sample {why}, so there is nothing to time. legroom memory says what it needs")


def _next(points: Sequence[StepTime], question: SpeedQuestion, ceiling: int) -> tuple[int, str]:
    """The size to try next, not above the last one where there is no larger; and what bounds it, if not the ceiling."""
    slowest = SLOW_SHARES.get(question.device, 0.08) * question.seconds
    room, why = _room(points, question, slowest)
    wanted = min(_following(points[-1].batch_size, question.passing), ceiling)
    own = min(question.passing, ceiling)
    if room < wanted and points[-1].batch_size < own <= _room(points, question, question.seconds / LOOK_STEPS)[0]:
        return own, ""
    return (largest_on_grid(max(1, int(room))), why) if room < wanted else (wanted, "")


def _following(size: int, passing: int) -> int:
    """The size to try after that one, if nothing bounds it.

    >>> [_following(size, passing=0) for size in (1, 4)], [_following(size, passing=50) for size in (1, 32, 50)]
    ([4, 16], [2, 50, 64])
    """
    if not passing:
        return GROWTH * size
    above = 1 << size.bit_length()
    return passing if size < passing < above else above


def _room(points: Sequence[StepTime], question: SpeedQuestion, slowest: float) -> tuple[float, str]:
    """The largest batch by memory and by the seconds that a step may take, as the last two sizes foretell."""
    last = points[-1]
    before = points[-2] if len(points) > 1 else last
    steps = max(1, last.batch_size - before.batch_size)
    limit = MEMORY_SHARES.get(question.device, 0.6) * last.available_bytes
    seconds_each = max(last.median_seconds - before.median_seconds, 0.0) / steps
    bytes_each = max(last.peak_bytes - before.peak_bytes, 0) / steps
    by_time = last.batch_size + max(0.0, slowest - last.median_seconds) / (seconds_each or 1e-12)
    by_memory = last.batch_size + max(0.0, limit - last.peak_bytes) / (bytes_each or 1e-12)
    if by_time < by_memory:
        return by_time, f"a step of more samples takes longer than {format_seconds(slowest)}; --seconds allows more"
    return by_memory, f"more samples would take above {format_bytes(limit)} of memory"
