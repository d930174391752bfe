"""A schedule is a function of the step: builders return closures, and `join` puts them one after another.

Steps are updates, counted from 0. A schedule built for n steps keeps its last value after them. Nothing here needs
torch; `rates.as_scheduler` hands a schedule to an optimizer.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence

from legroom.errors import UsageError

Schedule = Callable[[int], float]
"""Step, counted from 0 -> rate."""

ROUNDING = 1e-9
"""Share of a step by which a boundary may miss a whole number: 0.07 epochs of 100 steps are 7.000000000000001."""


def constant(peak: float) -> Schedule:
    """The same rate at every step.

    >>> constant(0.1)(5)
    0.1
    """
    _need(peak=(peak, 0.0))
    return lambda step: peak


def warmup(num_steps: int, peak: float, start: float = 0.0) -> Schedule:
    """A straight climb: step 0 has exactly `start`, step `num_steps` is the first that has exactly `peak`.

        rate(i) = start + (peak - start) * i / num_steps          up to num_steps, then peak

    From 0 as in LEGW (You et al., Large-Batch Training for LSTM and Beyond, 2018), where the first update changes no
    weight; from the rate of the base batch size in Goyal et al., Accurate, Large Minibatch SGD (2017), section 2.2.

    >>> [warmup(4, 1.0)(step) for step in range(6)]
    [0.0, 0.25, 0.5, 0.75, 1.0, 1.0]
    >>> [warmup(4, 1.0, start=0.5)(step) for step in range(6)]
    [0.5, 0.625, 0.75, 0.875, 1.0, 1.0]
    """
    _need(num_steps=(num_steps, 0), peak=(peak, 0.0), start=(start, 0.0))
    return lambda step: start + (peak - start) * step / num_steps if step < num_steps else peak


def multistep(boundaries: Sequence[float], factor: float, peak: float) -> Schedule:
    """The peak, multiplied by `factor` at each boundary.

        rate(i) = peak * factor^(boundaries at or before i)

    >>> [multistep([2, 4], 0.5, 8.0)(step) for step in range(6)]
    [8.0, 8.0, 4.0, 4.0, 2.0, 2.0]
    """
    _need(factor=(factor, 0.0), peak=(peak, 0.0))
    steps = list(boundaries)
    if steps != sorted(steps) or not all(step >= 0 for step in steps):
        raise UsageError(f"boundaries are {steps}; they must be steps of at least 0, none smaller than the one before")
    return lambda step: peak * factor ** bisect_right(steps, step + ROUNDING)


def polynomial(num_steps: int, peak: float, power: float) -> Schedule:
    """From the peak to zero in `num_steps`; power 1 is a straight line.

        rate(i) = peak * (1 - i / num_steps)^power

    >>> [polynomial(4, 16.0, power=2)(step) for step in range(6)]
    [16.0, 9.0, 4.0, 1.0, 0.0, 0.0]
    """
    _need(num_steps=(num_steps, 1), peak=(peak, 0.0), power=(power, 0.0))
    return lambda step: peak * (1 - min(step, num_steps) / num_steps) ** power


def linear(num_steps: int, peak: float, end: float = 0.0) -> Schedule:
    """A straight line from the peak to `end`, which step `num_steps` is the first to have.

    >>> [linear(4, 1.0)(step) for step in range(6)]
    [1.0, 0.75, 0.5, 0.25, 0.0, 0.0]
    """
    _need(num_steps=(num_steps, 1), peak=(peak, 0.0), end=(end, 0.0))
    return lambda step: end + (peak - end) * (1 - min(step, num_steps) / num_steps)


def cosine(num_steps: int, peak: float, end: float = 0.0) -> Schedule:
    """Half a cosine wave from the peak to `end`, which step `num_steps` is the first to have.

        rate(i) = end + (peak - end) * (1 + cos(pi * i / num_steps)) / 2

    Loshchilov and Hutter, SGDR (2017), without restarts.

    >>> [round(cosine(4, 1.0)(step), 4) for step in range(6)]
    [1.0, 0.8536, 0.5, 0.1464, 0.0, 0.0]
    """
    _need(num_steps=(num_steps, 1), peak=(peak, 0.0), end=(end, 0.0))
    return lambda step: _half_wave(peak, end, min(step, num_steps) / num_steps)


def stable(num_steps: int, peak: float, cooldown: float = 0.2, power: float = 1.0) -> Schedule:
    """The peak for most of the run, then a cooldown to zero over its last share.

        rate(i) = peak * (1 - u^power),    u = (i - s) / (num_steps - s)    from step s = (1 - cooldown) * num_steps on

    Power 1 falls in a straight line, power 1/2 steeply at first. Runs of any length can share what is trained before
    their cooldowns. Hu et al., MiniCPM (2024), where it is called warmup-stable-decay; Hägele et al., Scaling Laws and
    Compute-Optimal Training Beyond Fixed Training Durations (2024), where power 1/2 over a fifth of the run was as good
    as a cosine.

    >>> [stable(8, 1.0, cooldown=0.5)(step) for step in range(10)]
    [1.0, 1.0, 1.0, 1.0, 1.0, 0.75, 0.5, 0.25, 0.0, 0.0]
    >>> [round(stable(8, 1.0, cooldown=0.5, power=0.5)(step), 3) for step in range(3, 10)]
    [1.0, 1.0, 0.5, 0.293, 0.134, 0.0, 0.0]
    """
    _need(num_steps=(num_steps, 1), peak=(peak, 0.0), cooldown=(cooldown, 0.0), power=(power, 0.0))
    if cooldown > 1:
        raise UsageError(f"cooldown is {cooldown!r}; it is a share of the run, at most 1")
    length = cooldown * num_steps
    start = num_steps - length

    def rate(step: int) -> float:
        return peak * (1 - min(1.0, (step - start) / length) ** power) if step > start + ROUNDING else peak

    return rate


def exponential(peak: float, factor: float, every: float, after: float | None = None) -> Schedule:
    """The peak, multiplied by `factor` first after `after` steps and then after every `every` more.

        rate(i) = peak * factor^(1 + floor((i - after) / every))          from step `after` on

    Without `after` the first comes when all others do, after `every` steps. Zaremba et al., Recurrent Neural Network
    Regularization (2014) halve the rate every epoch after the 4th; with epochs of 2 steps:

    >>> [exponential(1.0, 0.5, every=2, after=8)(step) for step in (0, 7, 8, 9, 10, 12)]
    [1.0, 1.0, 0.5, 0.5, 0.25, 0.125]
    >>> [exponential(1.0, 0.5, every=1)(step) for step in range(4)]
    [1.0, 0.5, 0.25, 0.125]
    """
    first = every if after is None else after
    _need(peak=(peak, 0.0), factor=(factor, 0.0), after=(first, 0.0))
    if not 0 < every < math.inf:
        raise UsageError(f"every is {every!r}; it must be a number above 0")
    return lambda step: peak * factor ** max(0.0, 1 + (step - first + ROUNDING) // every)


def one_cycle(num_steps: int, peak: float, rise: float = 0.3, start: float = 0.04, end: float = 4e-6) -> Schedule:
    """Half a cosine wave up over the share `rise` of the run, then one down; `start` and `end` are shares of the peak.

        up     from start * peak at step 0 to peak at step rise * num_steps - 1
        down   from there to end * peak at step num_steps - 1

    Smith and Topin, Super-Convergence (2018), in the form and with the defaults of torch's OneCycleLR. The top may lie
    between two steps.

    >>> [round(one_cycle(11, 1.0, rise=5 / 11)(step), 4) for step in range(12)]
    [0.04, 0.1806, 0.52, 0.8594, 1.0, 0.933, 0.75, 0.5, 0.25, 0.067, 0.0, 0.0]
    """
    _need(num_steps=(num_steps, 1), peak=(peak, 0.0), start=(start, 0.0), end=(end, 0.0), rise=(rise, 0.0))
    if rise > 1:
        raise UsageError(f"rise is {rise!r}; it is a share of the run, at most 1")
    last = num_steps - 1
    top = max(0.0, rise * num_steps - 1)

    def rate(step: int) -> float:
        if step < top:
            return _half_wave(start * peak, peak, step / top)
        return _half_wave(peak, end * peak, min(1.0, (step - top) / (last - top)) if last > top else 0.0)

    return rate


def join(schedules: Sequence[Schedule], at: Sequence[int]) -> Schedule:
    """One schedule after another: the second from step at[0] on, and so forth.

    Each counts its steps from its own start, as in optax.join_schedules.

    >>> rate = join([warmup(2, 1.0), polynomial(4, 1.0, power=2)], at=[2])
    >>> [rate(step) for step in range(7)]
    [0.0, 0.5, 1.0, 0.5625, 0.25, 0.0625, 0.0]
    """
    starts = [0, *at]
    if len(starts) != len(schedules) or starts != sorted(starts):
        raise UsageError(
            f"join was given {len(schedules)} schedules and at={list(at)}; it needs one boundary between each two, "
            "none before step 0 or before the one to its left"
        )
    members = list(schedules)

    def rate(step: int) -> float:
        index = max(0, bisect_right(starts, step) - 1)
        return members[index](step - starts[index])

    return rate


def skip(schedule: Schedule, num_steps: int) -> Schedule:
    """The schedule without its first steps: behind a join it goes on as if it had run since step 0.

    >>> rate = join([warmup(2, 1.0), skip(polynomial(4, 1.0, power=2), 2)], at=[2])
    >>> [rate(step) for step in range(5)]
    [0.0, 0.5, 0.25, 0.0625, 0.0]
    """
    return lambda step: schedule(step + num_steps)


def _half_wave(first: float, last: float, share: float) -> float:
    return last + (first - last) * (1 + math.cos(math.pi * share)) / 2


def _need(**numbers: tuple[float, float]) -> None:
    """Refuse what is below its least value, infinite or no number."""
    for name, (value, least) in numbers.items():
        if not least <= value < math.inf:
            raise UsageError(f"{name} is {value!r}; it must be a number of at least {least:g}")
