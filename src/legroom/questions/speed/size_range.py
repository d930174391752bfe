"""Finds the batch sizes that can be timed: from one sample to the largest that memory, time and the data allow."""

from dataclasses import dataclass, field

from legroom.errors import DoesNotFit, JobRaised, OutOfMemory
from legroom.laws.memory import LARGEST_BATCH
from legroom.questions.memory.records import PhasePeaks, StepPeaks
from legroom.questions.speed.batch_sizes import largest_on_grid
from legroom.questions.speed.records import SpeedQuestion, StepTime, StepTimes
from legroom.requests import JobDescription
from legroom.session import Session
from legroom.units import format_bytes, format_seconds

GROWTH = 4
SCOUT_SECONDS = 0.3
MEMORY_SHARES = {"cpu": 0.6, "cuda": 0.88}
"""Of the memory the job could have; on a host other programs live there too."""
SLOW_SHARES = {"cpu": 0.05, "cuda": 0.08}
"""A step that takes more than this share of all the time there is cannot be repeated often enough."""


@dataclass(slots=True)
class Range:
    """Sizes that ran, and why there are no others."""

    low: int
    high: int
    because: str
    """What bounds it above."""
    notes: list[str] = field(default_factory=list)


def scout(session: Session, question: SpeedQuestion, size: int) -> StepTime:
    """A first look at one size; running out of memory is an answer, also where it ends the worker."""
    request = question.request((size,), seconds=SCOUT_SECONDS, min_rounds=1)
    started = session.clock()
    try:
        result = session.ask(request)
    except OutOfMemory:
        result = StepTimes(points=[StepTime(batch_size=size, outcome="out_of_memory")])
        session.logbook.record(request, result, session.clock() - started)
    except JobRaised as error:
        message = f"At a batch of {size:,}: {error}"
        raise JobRaised(message, details=error.details, facts={"batch_size": size}) from None
    assert isinstance(result, StepTimes)
    return result.points[0]


def find_range(session: Session, question: SpeedQuestion, description: JobDescription) -> Range:
    """Grow from one sample until memory, time or the data set ends it."""
    ceiling, because = _ceiling(session, question, description)
    first, notes = _smallest(session, question, min(2, ceiling))
    found = Range(first.batch_size, first.batch_size, because, notes)
    points = [first]
    while True:
        wanted, why = _next(points, question, ceiling)
        if wanted <= found.high:
            found.because = why or because
            break
        session.progress(f"batch of {wanted:,}", min(0.3, 0.05 + 0.04 * len(points)))
        try:
            point = scout(session, question, wanted)
        except JobRaised as error:  # smaller ones ran: that is an answer too
            found.because = str(error)
            break
        if point.outcome != "measured":
            ceiling, because = largest_on_grid(wanted - 1), f"{wanted:,} samples do not fit the memory"
            continue
        points.append(point)
        found.high = point.batch_size
    return found


def _smallest(session: Session, question: SpeedQuestion, second: int) -> tuple[StepTime, list[str]]:
    """One sample, or two where the job cannot train on one, as with batch norm."""
    try:
        point = scout(session, question, 1)
        if point.outcome == "measured":
            return point, []
        why = "did not run" if point.outcome == "no_batch" else "ran out of memory"
        raise DoesNotFit(
            f"A step on a single sample {why}, so there is nothing to time. legroom memory says what it needs"
        )
    except JobRaised as error:
        if second < 2:
            raise
        point = scout(session, question, second)
        if point.outcome != "measured":
            raise
        return point, [f"{error}. Sizes were tried from {second} on"]


def _ceiling(session: Session, question: SpeedQuestion, description: JobDescription) -> tuple[int, str]:
    """The size above which nobody asks, and why."""
    limits = [(LARGEST_BATCH, f"batches above {LARGEST_BATCH:,} are not tried")]
    if description.num_samples is not None:
        limits.append((description.num_samples, f"the data set has {description.num_samples:,} samples"))
    if description.widest_batch is not None:
        limits.append((description.widest_batch, "the job's own loader gives no larger batch"))
    proved = [
        entry.request.batch_size
        for entry in session.logbook.known
        if isinstance(entry.request, StepPeaks) and isinstance(entry.result, PhasePeaks)
        if entry.request.proof and entry.result.outcome == "measured" and entry.request.accumulation_steps == 1
        if (entry.request.device, entry.request.precision) == (question.device, question.precision)
    ]
    if proved:
        limits.append((max(proved), f"{max(proved):,} is the largest batch proved to fit"))
    return min(limits)


def _next(points: list[StepTime], question: SpeedQuestion, ceiling: int) -> tuple[int, str]:
    """The size to try next, not above the last one where there is no larger; and what bounds it, if not the ceiling."""
    room, why = _room(points, question)
    wanted = min(GROWTH * points[-1].batch_size, ceiling)
    return (largest_on_grid(max(1, int(room))), why) if room < wanted else (wanted, "")


def _room(points: list[StepTime], question: SpeedQuestion) -> tuple[float, str]:
    """The largest batch by memory and time, as the last two sizes foretell."""
    last = points[-1]
    before = points[-2] if len(points) > 1 else last
    steps = max(1, last.batch_size - before.batch_size)
    slowest = SLOW_SHARES.get(question.device, 0.08) * question.seconds
    limit = MEMORY_SHARES.get(question.device, 0.6) * last.available_bytes
    seconds_each = max(last.median_seconds - before.median_seconds, 0.0) / steps
    bytes_each = max(last.peak_bytes - before.peak_bytes, 0) / steps
    by_time = last.batch_size + max(0.0, slowest - last.median_seconds) / (seconds_each or 1e-12)
    by_memory = last.batch_size + max(0.0, limit - last.peak_bytes) / (bytes_each or 1e-12)
    if by_time < by_memory:
        return by_time, f"a step of more samples takes longer than {format_seconds(slowest)}; --seconds allows more"
    return by_memory, f"more samples would take above {format_bytes(limit)} of memory"
