"""Times a job's steps: finds the range of sizes, chooses which tell the most, and measures these."""

import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from legroom.errors import JobRaised, LegroomError, OutOfMemory
from legroom.laws.compute import knee_of
from legroom.questions.speed.batch_sizes import choose_sizes, grid, odd_sizes, powers_of_two
from legroom.questions.speed.evidence import (
    NUM_CONFIRMED,
    first_looks,
    gather,
    is_faster,
    undecided_sizes,
)
from legroom.questions.speed.records import MeasurePadding, SpeedQuestion, StepTime, StepTimes
from legroom.questions.speed.size_range import GROWTH, read_range
from legroom.questions.speed.step_law import fit_steps
from legroom.requests import MeasureDevice
from legroom.session import Session

NUM_UTILISATION_SIZES = 14
NUM_LOOKS = 4
FETCHING = 0.1
"""Share of the core seconds in the system from which on malloc's reuse of memory is tried."""
CLIMBING = 0.6
"""Of the best throughput by a first look: below it no size is the knee."""
RUN_SECONDS, FEWEST, MOST = 3.0, 3, 12
"""Of timing in each fresh process, and how few and how many there are."""
OVERRUN = 6.0
"""How many times the seconds allowed all processes may take, with their start, before no more are started."""
LEAST_TO_TRY = 5.0
"""Seconds of a question below which no setting is tried: whoever allows fewer wants the timings alone, soon."""
TRY_SECONDS = 1.0
"""Of each such process, for two sizes."""


def num_runs(seconds: float) -> int:
    """Processes that so many seconds of timing would be spread over, if each timed all sizes.

    >>> num_runs(1), num_runs(15), num_runs(600)
    (3, 5, 12)
    """
    return max(FEWEST, min(MOST, round(seconds / RUN_SECONDS)))


def num_whole_runs(seconds: float) -> int:
    """Processes that do time all sizes; those that decide the knee have the rest of the time for themselves.

    >>> num_whole_runs(1), num_whole_runs(15), num_whole_runs(600)
    (3, 3, 6)
    """
    return max(FEWEST, num_runs(seconds) // 2)


def measure_speed(session: Session, question: SpeedQuestion, most_looking: float = math.inf) -> None:
    """Measure until the logbook holds what the advice needs; first looks alone end after so many seconds."""
    description = session.records.description()
    if question.quick:
        _scout(session, question, most_looking)
        return
    session.progress("measuring the device", 0.04)
    session.ask(MeasureDevice(device=question.device))
    sizes = find_range(session, question)
    if not question.batch_sizes:
        choose = _choose_rising if question.device == "cpu" else _choose
        sizes = choose(session, question, sizes)
    if question.device == "cpu":
        _time_runs(session, question, sizes)
        _try_settings(session, question)
    else:
        session.progress(f"timing {len(sizes)} sizes in rounds", 0.4)
        session.ask(question.request(tuple(sizes), seconds=question.seconds, close=True))
    if description.uneven and not description.own_loader:
        session.progress("collating batches", 0.95)
        session.ask(MeasurePadding(batch_size=description.baseline["batch_size"], seed=question.seed))


def _scout(session: Session, question: SpeedQuestion, most_looking: float) -> None:
    """First looks alone: on a CPU at all on the way up, on a GPU at what would be timed closely within the range."""
    sizes = find_range(session, question, most_looking)
    if not question.batch_sizes and not question.passing:
        for size in _choose(session, question, sizes):
            session.progress(f"batch of {size:,}", 0.8)
            _look(session, question, size)


def find_range(session: Session, question: SpeedQuestion, most_looking: float = math.inf) -> list[int]:
    """Look at one size after another until it is known which can be timed; those looked at that ran.

    Where the seconds for that are over, the job's own size is the last.
    """
    started = session.clock()
    while True:
        found = read_range(first_looks(session.records, question), question)
        size = found.wants
        if size is not None and found.sizes and session.clock() - started > most_looking:
            size = question.passing if found.sizes[-1] < question.passing <= question.ceiling else None
        if size is None:
            return found.sizes
        session.progress(f"batch of {size:,}", min(0.3, 0.05 + 0.04 * len(found.sizes)))
        _look(session, question, size, must_run=found.must_run)


def _look(session: Session, question: SpeedQuestion, size: int, *, must_run: bool = True) -> StepTime:
    """A first look at one size; that it does not run is an answer, also where it ends the child."""
    request, started = question.look(size), session.clock()
    try:
        return session.ask(request).points[0]
    except OutOfMemory:
        result = StepTimes(points=[StepTime(batch_size=size, outcome="out_of_memory")])
    except JobRaised as error:
        message = f"At a batch of {size:,}: {error}"
        if must_run:
            raise JobRaised(message, details=error.details, facts={"batch_size": size}) from None
        result = StepTimes(points=[StepTime(batch_size=size, outcome="raised")], not_measured=[message])
    session.logbook.record(request, result, session.clock() - started)
    return result.points[0]


def _choose(session: Session, question: SpeedQuestion, ran: list[int]) -> list[int]:
    """Four sizes for the law, those that check it, and the job's own."""
    sizes, looks = grid(ran[0], ran[-1]), dict[int, StepTime]()

    def look(size: int) -> StepTime:
        if size not in looks:
            looks[size] = _look(session, question, size)
        return looks[size]

    chosen = choose_sizes(sizes, lambda size: look(size).median_seconds)
    knee = _close_in(chosen, sizes, look, question.share)
    return sorted({*chosen, knee, *_beside(session, question, sizes, knee)})


def _close_in(chosen: list[int], sizes: list[int], look: Callable[[int], StepTime], share: float) -> int:
    """The knee by the law; each one foretold is looked at and joins the sizes chosen, until it stays."""
    for _ in range(NUM_LOOKS):
        law = fit_steps([look(size) for size in chosen])
        knee = knee_of(law.samples_per_second, sizes, share)
        if knee in chosen:
            break
        chosen.append(knee)
    return knee


def _choose_rising(session: Session, question: SpeedQuestion, ran: list[int]) -> list[int]:
    """The sizes of the first looks, every power of two where throughput climbs to its best, and the job's own."""
    sizes, ladder = grid(ran[0], ran[-1]), [ran[0]]
    while GROWTH * ladder[-1] < ran[-1]:
        ladder.append(GROWTH * ladder[-1])
    ladder = sorted({*ladder, ran[-1]})
    throughputs = {size: _look(session, question, size).samples_per_second for size in ladder}
    best = max(throughputs, key=lambda size: throughputs[size])
    slow = [size for size in ladder if size < best and throughputs[size] < CLIMBING * throughputs[best]]
    climbing = [size for size in powers_of_two(sizes) if max(slow, default=ran[0]) <= size <= best]
    knee = knee_of(lambda size: throughputs[size], ladder, question.share)
    return sorted({*ladder, *climbing, *_beside(session, question, sizes, knee)})


def _beside(session: Session, question: SpeedQuestion, sizes: list[int], knee: int) -> set[int]:
    """The job's own size, those beside a power of two near the knee, and what the rule of utilisation looks at."""
    own = session.records.description().baseline["batch_size"]
    more = {min(max(own, sizes[0]), sizes[-1]), *([] if question.quick else odd_sizes(knee, sizes))}
    return more | set(powers_of_two(sizes)[-NUM_UTILISATION_SIZES:] if question.rule == "utilisation" else [])


def _time_runs(session: Session, question: SpeedQuestion, sizes: list[int]) -> None:
    """All sizes in a few fresh processes, from the smallest on; then what decides the knee, until that is known."""
    num, num_whole, started = num_runs(question.seconds), num_whole_runs(question.seconds), session.clock()
    for run in range(1, num_whole + 1):
        _time_run(session, question, tuple(sizes), run)
    last_seconds = (session.clock() - started) / num_whole
    ends = started + min(num * last_seconds, OVERRUN * question.seconds)
    for run in range(num_whole + 1, MOST + 1):
        undecided, begun = undecided_sizes(gather(session.records, question)), session.clock()
        if not undecided or begun + last_seconds > ends:
            break
        _time_run(session, question, undecided, run)
        last_seconds = session.clock() - begun


def _time_run(session: Session, question: SpeedQuestion, sizes: tuple[int, ...], run: int) -> None:
    session.progress(f"{len(sizes)} sizes in a fresh process, number {run}", 0.3 + 0.5 * run / MOST)
    seconds = question.seconds / num_runs(question.seconds)
    session.ask(question.request(sizes, seconds=seconds, run=run, close=run == 1))


def _try_settings(session: Session, question: SpeedQuestion) -> None:
    """The knee and the largest quick size with each setting that may pay; one that seems to is timed again."""
    if question.seconds < LEAST_TO_TRY:
        return
    evidence = gather(session.records, question)
    timed = evidence.timed()
    quick = [size for size in timed if timed[size].median_seconds <= TRY_SECONDS / 4]
    ends = tuple(sorted({evidence.knee, max(quick, default=evidence.knee)}))
    fetches = any(map(is_fetching, evidence.points))
    for words, setting in settings_to_try(session.host.limits.num_cores, fetches=fetches):
        session.progress(words, 0.85)
        for run in range(1, NUM_CONFIRMED + 1):
            again = _try_setting(session, question, ends, run, setting)
            if not any(is_faster(point, timed) for point in again):
                break


def is_fetching(point: StepTime) -> bool:
    """Whether a share of the step goes into memory that is freed and fetched anew."""
    return point.system_share > FETCHING


def settings_to_try(num_cores: int, *, fetches: bool) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """What may pay on a CPU: reusing memory where fetching it takes a share, sleeping threads, fewer threads."""
    if fetches:
        yield "with memory kept", {"keeps_memory": True}
    num_threads = _num_threads(num_cores)
    if num_threads > 1:
        yield "with threads that sleep", {"passive_threads": True}
        yield "with fewer threads", {"num_threads": num_threads // 2}


def _num_threads(num_cores: int) -> int:
    """Those of a process in the user's own environment."""
    own = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]  # further ones are of nested regions
    return min(num_cores, int(own)) if own.isdigit() and int(own) else num_cores


def _try_setting(
    session: Session, question: SpeedQuestion, sizes: tuple[int, ...], run: int, setting: Mapping[str, Any]
) -> list[StepTime]:
    """What that process gave; nothing where it failed, as where more is kept than there is: no timing is lost by it."""
    with suppress(LegroomError):
        result = session.ask(question.request(sizes, seconds=TRY_SECONDS, run=run, **setting))
        return [point for point in result.points if point.outcome == "measured"]
    return []
