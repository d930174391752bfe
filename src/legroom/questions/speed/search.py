"""Times a job's steps: finds the range of sizes, chooses which tell the most, and measures these."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from legroom.errors import LegroomError, NothingMeasured
from legroom.host.limits import read_limits
from legroom.laws.compute import knee_of
from legroom.questions.speed.batch_sizes import choose_sizes, grid
from legroom.questions.speed.clocks import fit_steps
from legroom.questions.speed.records import MeasurePadding, SpeedQuestion, StepTime, StepTimes
from legroom.questions.speed.size_range import GROWTH, Range, find_range, scout
from legroom.questions.speed.step_runs import FEWEST, NUM_CONFIRMED, is_faster, join_runs, num_runs, timed_knee
from legroom.requests import JobDescription, MeasureDevice
from legroom.session import Session

NUM_UTILISATION_SIZES = 14
NUM_LOOKS = 4
FETCHING = 0.1
"""Share of the core seconds in the system from which on keeping memory is tried."""
CLIMBING = 0.6
"""Of the best rate by a first look: below it no size is the knee."""
OVERRUN = 6.0
"""How many times the seconds allowed all processes may take, with their start, before no more are started."""
LEAST_TO_TRY = 5.0
"""Seconds of a question below which no setting is tried: whoever allows fewer wants the timings alone, soon."""
TRY_SECONDS = 1.0
"""Of each such process, for two sizes."""


def measure_speed(session: Session, question: SpeedQuestion, description: JobDescription) -> Range:
    """Measure until the logbook holds what the advice needs; returns the range of sizes that can be run."""
    session.progress("measuring the device", 0.04)
    session.ask(MeasureDevice(device=question.device))
    if question.batch_sizes:
        found, sizes = _named(session, question)
    else:
        found = find_range(session, question, description)
        choose = _choose_rising if question.device == "cpu" else _choose
        sizes = choose(session, question, description, found)
    if question.device == "cpu":
        points = _time_runs(session, question, sizes)
        _try_settings(session, question, points, {*question.batch_sizes, description.baseline["batch_size"]})
    else:
        session.progress(f"timing {len(sizes)} sizes in rounds", 0.4)
        session.ask(question.request(tuple(sizes), seconds=question.seconds, close=True))
    if description.uneven and not description.own_loader:
        session.progress("collating batches", 0.95)
        session.ask(MeasurePadding(batch_size=description.baseline["batch_size"], seed=question.seed))
    return found


def _time_runs(session: Session, question: SpeedQuestion, sizes: list[int]) -> list[StepTime]:
    """Each size in several fresh processes, from the smallest on; what they say together."""
    results, num, started = [], num_runs(question.seconds), session.clock()
    for run in range(1, num + 1):
        if run > FEWEST and session.clock() - started > OVERRUN * question.seconds:
            break
        session.progress(f"{len(sizes)} sizes in a fresh process, {run} of {num}", 0.3 + 0.5 * (run - 1) / num)
        request = question.request(tuple(sizes), seconds=question.seconds / num, run=run, close=run == 1)
        result = session.ask(request)
        assert isinstance(result, StepTimes)
        results.append(result.points)
    return join_runs(results)


def _try_settings(session: Session, question: SpeedQuestion, points: list[StepTime], own: set[int]) -> None:
    """The knee and the largest quick size with each setting that may pay; one that seems to is timed again."""
    ran = [point for point in points if point.outcome == "measured"]
    if not ran or question.seconds < LEAST_TO_TRY:
        return
    timed = {point.batch_size: point for point in ran}
    knee, _ = timed_knee(ran, own, question.share)
    quick = max((size for size in timed if timed[size].median_seconds <= TRY_SECONDS / 4), default=knee)
    ends = tuple(sorted({knee, quick}))
    for words, setting in _settings(ran):
        session.progress(words, 0.85)
        for run in range(1, NUM_CONFIRMED + 1):
            again = _try_setting(session, question, ends, run, setting)
            if not any(is_faster(point, timed[point.batch_size]) for point in again):
                break


def _settings(points: list[StepTime]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """What may pay on a CPU: keeping memory where fetching it takes a share, sleeping threads, fewer threads."""
    if any(point.system_share > FETCHING for point in points):
        yield "with memory kept", {"keeps_memory": True}
    num_cores = read_limits().num_cores
    if num_cores > 1:
        yield "with threads that sleep", {"passive_threads": True}
        yield "with fewer threads", {"num_threads": num_cores // 2}


def _try_setting(
    session: Session, question: SpeedQuestion, sizes: tuple[int, ...], run: int, setting: Mapping[str, Any]
) -> list[StepTime]:
    """What that process gave; nothing where it failed, as where more is kept than there is: no timing is lost by it."""
    with suppress(LegroomError):
        result = session.ask(question.request(sizes, seconds=TRY_SECONDS, run=run, **setting))
        assert isinstance(result, StepTimes)
        return [point for point in result.points if point.outcome == "measured"]
    return []


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
    return sorted({*chosen, knee, *_beside(question, description, found, knee)})


def _choose_rising(session: Session, question: SpeedQuestion, description: JobDescription, found: Range) -> list[int]:
    """The sizes of the first looks, every power of two where the rate climbs to its best, and the job's own."""
    powers = [size for size in grid(found.low, found.high) if size & (size - 1) == 0]
    ladder = sorted({found.low, *[size for size in powers if size in _ladder(found)], found.high})
    rates = {size: size / scout(session, question, size).median_seconds for size in ladder}
    best = max(rates, key=lambda size: rates[size])
    start = max((size for size in ladder if size < best and rates[size] < CLIMBING * rates[best]), default=found.low)
    knee = knee_of(lambda size: rates[size], ladder, question.share)
    climbing = [size for size in powers if start <= size <= best]
    return sorted({*ladder, *climbing, *_beside(question, description, found, knee)})


def _ladder(found: Range) -> list[int]:
    """The sizes a growing search tried."""
    sizes = [found.low]
    while sizes[-1] < found.high:
        sizes.append(GROWTH * sizes[-1])
    return sizes


def _beside(question: SpeedQuestion, description: JobDescription, found: Range, knee: int) -> set[int]:
    """The job's own size, those beside a power of two near the knee, and what the rule of utilisation looks at."""
    sizes = grid(found.low, found.high)
    more = {min(max(description.baseline["batch_size"], found.low), found.high), *odd_sizes(knee, sizes)}
    if question.rule == "utilisation":
        more |= set([size for size in sizes if size & (size - 1) == 0][-NUM_UTILISATION_SIZES:])
    return more


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
