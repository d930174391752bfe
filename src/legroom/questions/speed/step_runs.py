"""What several processes say together of a step's seconds: medians over them, and how far another run would differ."""

import statistics
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from legroom.laws.intervals import rerun_interval
from legroom.questions.speed.batch_sizes import grid
from legroom.questions.speed.records import StepTime

RUN_SECONDS, FEWEST, MOST = 3.0, 3, 12
CLEAR_GAIN = 0.1
"""Of timings that did not run side by side."""
NUM_CONFIRMED = 3
"""Processes that a setting is timed in before its gain is told."""


def num_runs(seconds: float) -> int:
    """Processes that so many seconds of timing are spread over.

    >>> num_runs(1), num_runs(15), num_runs(600)
    (3, 5, 12)
    """
    return max(FEWEST, min(MOST, round(seconds / RUN_SECONDS)))


def join_runs(runs: Sequence[Sequence[StepTime]]) -> list[StepTime]:
    """Each size as the processes saw it that ran it; as the first did where none could."""
    sizes = dict.fromkeys(point.batch_size for run in runs for point in run)
    return [_join([point for run in runs for point in run if point.batch_size == size]) for size in sizes]


def _join(points: Sequence[StepTime]) -> StepTime:
    ran = [point for point in points if point.outcome == "measured"]
    if not ran:
        return points[0]
    seconds = [point.median_seconds for point in ran]
    busy = [point.load.utilisation for point in ran if point.load.utilisation is not None]
    return replace(
        ran[0],
        median_seconds=statistics.median(seconds),
        interval=rerun_interval(seconds),
        num_rounds=len(ran),
        num_repeats=sum(point.num_repeats for point in ran),
        peak_bytes=int(statistics.median(point.peak_bytes for point in ran)),
        system_share=statistics.median(point.system_share for point in ran),
        load=replace(ran[0].load, utilisation=statistics.median(busy) if busy else None),
    )


def worth_naming(points: Sequence[StepTime], own: Collection[int]) -> list[StepTime]:
    """Points at sizes of the grid or of the user's own: 504, timed beside 512, is no advice.

    >>> points = [StepTime(batch_size=size) for size in (1, 24, 31, 32, 50)]
    >>> [point.batch_size for point in worth_naming(points, own={31})]
    [1, 24, 31, 32, 50]
    """
    sizes = [point.batch_size for point in points]
    worth = {*grid(min(sizes), max(sizes)), *own}
    return [point for point in points if point.batch_size in worth]


def first_fast_enough(points: Sequence[StepTime], enough: float, seconds: Callable[[StepTime], float]) -> int | None:
    """The smallest size with so many samples a second, a step taking what `seconds` says; None where none has.

    >>> points = [StepTime(batch_size=size, median_seconds=1.0) for size in (1, 8, 64)]
    >>> first_fast_enough(points, 7.2, lambda point: point.median_seconds)
    8
    """
    return next((point.batch_size for point in points if point.batch_size / seconds(point) >= enough), None)


def timed_knee(points: Sequence[StepTime], own: Collection[int], share: float) -> tuple[int, tuple[int, int]]:
    """The smallest size that was timed within the share of the best, and between which it lies by the intervals.

    No law decides it, however well it fits.
    """
    best = max(points, key=lambda point: point.samples_per_second)
    enough, worth = share * best.samples_per_second, worth_naming(points, own)
    low, knee, high = (
        first_fast_enough(worth, enough, seconds) or best.batch_size
        for seconds in (lambda p: p.interval[0], lambda p: p.median_seconds, lambda p: p.interval[1])
    )
    return knee, (min(low, knee), max(knee, high))


def is_faster(again: StepTime, timed: StepTime) -> bool:
    """Whether the size was clearly faster when it ran again with another setting.

    >>> timed = StepTime(batch_size=8, median_seconds=1.0, interval=(0.8, 1.25))
    >>> [is_faster(StepTime(batch_size=8, median_seconds=seconds), timed) for seconds in (0.75, 0.85)]
    [True, False]
    """
    return again.median_seconds < min(timed.interval[0], timed.median_seconds / (1 + CLEAR_GAIN))
