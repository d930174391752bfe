"""The law through four of the sizes timed, and which of two clocks sets a step's pace on a GPU: host or device.

    t(B) = (host^p + device(B)^p)^(1/p),  p = 16: nearly the larger of the two

host: seconds to launch a step, the same at every batch size, and uneven from moment to moment. device(B): seconds of
the kernels alone, which repeat to a thousandth. Below the bend t(B) shows the host only and hides the device; so both
are measured apart, the host's pace is taken from all sizes together, and the curve is fitted to the device's seconds.
Source: the bound of whichever resource is slower, S. Williams et al., Roofline (CACM 52(4), 2009).
"""

import statistics
from collections.abc import Sequence
from dataclasses import replace

from legroom.laws.compute import SpeedLaw, fit_speed
from legroom.questions.speed.batch_sizes import NUM_LAW_SIZES, choose_sizes, grid
from legroom.questions.speed.records import StepTime

HIDDEN = 1.15
"""A step that takes longer than so many times its device's seconds waits for the host."""
SLOWEST = 1.6
"""One that takes longer than so many times its launches waits for something else."""
LIKELY = (0.75, 1.3)
"""Between which a step's seconds lie, as a share of the slower clock's; else something else sets the pace."""


def law_of(points: Sequence[StepTime]) -> tuple[SpeedLaw, list[float]]:
    """The law through at most four of the sizes, and its relative errors at the others."""
    seconds = {point.batch_size: point.median_seconds for point in points}
    chosen = choose_sizes(_on_grid(list(seconds)), lambda size: seconds[size])
    law = fit_steps([point for point in points if point.batch_size in chosen])
    errors = [law.seconds(size) / seconds[size] - 1 for size in seconds if size not in chosen]
    doubt = max([law.doubt, *map(abs, errors), *(point.spread for point in points)])
    return replace(law, doubt=doubt), errors


def _on_grid(sizes: Sequence[int]) -> Sequence[int]:
    """Sizes of the grid; those beside powers of two may run by other kernels."""
    plain = [size for size in sizes if size in grid(sizes[0], sizes[-1])]
    return plain if len(plain) >= NUM_LAW_SIZES else sizes


def fit_steps(points: Sequence[StepTime]) -> SpeedLaw:
    """The law through the points: by both clocks where they are known at all of them, else by the steps alone.

    >>> steps = [(1, 0.02, 0.002), (32, 0.02, 0.018), (64, 0.034, 0.034), (256, 0.13, 0.13)]
    >>> law = fit_steps([
    ...     StepTime(batch_size=size, median_seconds=step, device_seconds=device, host_seconds=0.02)
    ...     for size, step, device in steps
    ... ])
    >>> law.host_seconds, round(law.seconds(8), 4), round(law.seconds(128), 3)
    (0.02, 0.02, 0.066)
    """
    host = host_pace(points)
    law = fit_speed([(point.batch_size, _work(point, host)) for point in points], host_seconds=host)
    return replace(law, host_doubt=_host_doubt(law, points) if host else 0.0)


def _host_doubt(law: SpeedLaw, points: Sequence[StepTime]) -> float:
    """How far the steps lie from the law, or launches from the host's pace: the larger, as a share."""
    misses = [abs(law.seconds(point.batch_size) / point.median_seconds - 1) for point in points]
    launches = [abs(point.host_seconds / law.host_seconds - 1) for point in points if point.host_seconds]
    return max(*misses, statistics.median(launches) if launches else 0.0)


def host_pace(points: Sequence[StepTime]) -> float:
    """Seconds in which the host launches a step at any size; 0 where that is unknown or explains too little.

    By the steps that waited for it where there are two of them, since each is the median of many; else launches timed
    apart count too. Means without both extremes, since a slow moment may spoil one of them, and a median of so few
    would throw half of the others away.
    """
    if not all(point.device_seconds for point in points):
        return 0.0
    launches = [point.host_seconds for point in points if point.host_seconds]
    typical, (low, high) = _typical(points, launches), LIKELY
    if not low < statistics.median(p.median_seconds / max(typical, p.device_seconds) for p in points) < high:
        return 0.0
    waited = [point.median_seconds for point in points if waits_for_host(point, typical)]
    return _middle(waited if len(waited) > 1 else [*launches, *2 * waited])


def _typical(points: Sequence[StepTime], launches: Sequence[float]) -> float:
    """A first guess: what launching took or, where that is not known, the fastest of the steps that waited; 0 where
    some waited much longer, as for work of the host that grows with the batch."""
    waited = [point.median_seconds for point in points if point.median_seconds > HIDDEN * point.device_seconds]
    if launches or not waited:
        return statistics.median(launches) if launches else 0.0
    return min(waited) if max(waited) < SLOWEST * min(waited) else 0.0


def _middle(values: Sequence[float]) -> float:
    if not values:
        return 0.0
    ordered = sorted(values)
    return statistics.fmean(ordered[1:-1] if len(ordered) > 3 else ordered)


def waits_for_host(point: StepTime, host_seconds: float) -> bool:
    """Whether launches, which take the host so long, set the pace at that size; not where a clock is unknown."""
    return 0 < HIDDEN * point.device_seconds < point.median_seconds < SLOWEST * host_seconds


def _work(point: StepTime, host: float) -> float:
    """Seconds of the device: the step's own where the device sets the pace, so that the law passes through it."""
    hidden = waits_for_host(point, host) or point.median_seconds < HIDDEN * host
    return point.device_seconds if host and hidden else point.median_seconds
