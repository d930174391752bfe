"""A run on a device that is not here, from a run here: how the peaks of both compare.

    f               = max(F / P', Q / W') / max(F / P, Q / W)
    f between         P / P'  and  max(c * P / P', W / W'),   c = F / (P * device seconds here)
    compute(there)  = (1 - busy) * compute(here) + busy * compute(here) * f

P, W: peak operations and peak bytes a second of the device here; P', W' of the one there. F, Q: operations and bytes
moved by a step. Nobody counts Q, which is at most W times the seconds here, so f has a range; c is 0 where nobody
counted F either. busy: share of the step in which the device here works; the rest is the host's, which is taken for
equally fast there, as are loading and what a loop adds to an update. The share of its peak that a step reaches is taken
for the same on both, which it is not: kernels are tuned for some devices, and small batches fill a large device less.
So a doubt comes on top of the range. S. Williams et al., Roofline (CACM 2009).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from legroom.laws.time_to_target import pass_seconds, seconds_to_target, step_seconds

DOUBT = 1.5
"""Factor both ways beyond the ratios of peaks: what a forecast from published peaks alone may be off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peaks:
    """What a device can do at best."""

    flops_per_second: float
    bytes_per_second: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """A number with the range it may lie in."""

    value: float
    low: float
    high: float


def work_factor(here: Peaks, there: Peaks, *, compute_share: float = 0.0) -> Forecast:
    """How many times as long the same work takes there: the geometric mean of the least and the most it can be.

    compute_share: of its peak operations, those that the device here was seen to do, or fewer.

    >>> here = Peaks(flops_per_second=4e13, bytes_per_second=1e12)
    >>> there = Peaks(flops_per_second=8e13, bytes_per_second=4e12)
    >>> for share in (0.0, 0.72, 1.0):
    ...     factor = work_factor(here, there, compute_share=share)
    ...     print(round(factor.value, 3), factor.low, factor.high)
    0.354 0.25 0.5
    0.424 0.36 0.5
    0.5 0.5 0.5
    """
    by_compute = here.flops_per_second / there.flops_per_second
    by_memory = max(min(1.0, compute_share) * by_compute, here.bytes_per_second / there.bytes_per_second)
    low, high = sorted((by_compute, by_memory))
    return Forecast(value=math.sqrt(low * high), low=low, high=high)


def floor_seconds(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Seconds of a pass that do not grow with its batch, most of which launch kernels.

    They are where a line through the two smallest sizes that were timed begins; 0 where only one was. Sizes rise.

    >>> [round(floor_seconds([64, 256], [0.01, last]), 4) for last in (0.025, 0.04)], floor_seconds([8], [1.0])
    ([0.005, 0.0], 0.0)
    """
    if len(sizes) < 2:
        return 0.0
    slope = (seconds[1] - seconds[0]) / (sizes[1] - sizes[0])
    return min(seconds[0], max(0.0, seconds[0] - slope * sizes[0]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A run here, by what each part of it takes."""

    num_steps: float
    num_passes: float = 1
    """Of an update."""
    compute_seconds: float
    """Of a pass."""
    busy: float = 1.0
    """Share of these in which the device works and does not wait for its host."""
    load_seconds: float = 0.0
    """Of the batch of a pass."""
    num_workers: float = 0
    """That load it meanwhile; without any, the training process does."""
    update_seconds: float = 0.0
    """What an update takes besides."""
    evaluation_seconds: float = 0.0
    """Of all evaluations together."""


def seconds_of_update(work: Work, factor: float) -> float:
    """Seconds of an update where the device takes so many times as long for the same work."""
    one_pass = pass_seconds(_slowed(work, factor) * work.compute_seconds, work.load_seconds, work.num_workers)
    return step_seconds(work.num_passes, one_pass, work.update_seconds, 0.0)


def run_seconds(work: Work, factor: float) -> float:
    """Seconds of the run there.

    >>> work = Work(num_steps=100, compute_seconds=0.1, busy=0.5, load_seconds=0.08, num_workers=2, update_seconds=0.01)
    >>> [round(run_seconds(work, factor), 2) for factor in (1.0, 0.8, 0.1)]
    [11.0, 10.0, 9.0]
    """
    evaluating = _slowed(work, factor) * work.evaluation_seconds
    return seconds_to_target(work.num_steps, seconds_of_update(work, factor), 1, evaluating)


def _slowed(work: Work, factor: float) -> float:
    return 1 - work.busy + work.busy * factor


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A device that can be rented."""

    name: str
    price_per_hour: float
    memory_bytes: float
    peaks: Peaks


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferForecast:
    """What a run would take there."""

    name: str
    fits: bool
    """Whether the batch fits its memory."""
    largest_batch: float
    num_passes: float
    """Passes of what fits that make the update; infinite where not even one sample fits."""
    step_seconds: Forecast | None
    """Of an update; None where nothing fits."""
    seconds: Forecast | None
    """To the target."""
    money: Forecast | None


def forecast_offer(
    offer: Offer,
    here: Peaks,
    work: Work,
    *,
    batch_size: float,
    fixed_bytes: float,
    bytes_per_sample: float,
    compute_share: float = 0.0,
    doubt: float = DOUBT,
) -> OfferForecast:
    """Memory, time and money of a run there; a batch that does not fit is made of several passes.

    batch_size: of a pass here. Smaller passes take its work together; what each costs beyond that is in the doubt.
    compute_share: as in `work_factor`.

    >>> peaks = Peaks(flops_per_second=2e13, bytes_per_second=2e12)
    >>> card = Offer(name="x", price_per_hour=3.6, memory_bytes=1e9, peaks=peaks)
    >>> here = Peaks(flops_per_second=1e13, bytes_per_second=1e12)
    >>> memory = {"fixed_bytes": 1e8, "bytes_per_sample": 2e7}
    >>> work = Work(num_steps=1000, compute_seconds=0.2)
    >>> told = forecast_offer(card, here, work, batch_size=64, doubt=1.0, **memory)
    >>> told.fits, told.largest_batch, told.num_passes, round(told.seconds.value), round(told.money.value, 3)
    (False, 45, 2, 100, 0.1)
    """
    room = max(0, math.floor((offer.memory_bytes - fixed_bytes) / bytes_per_sample)) if bytes_per_sample else math.inf
    if room < 1:
        nothing = {"step_seconds": None, "seconds": None, "money": None}
        return OfferForecast(name=offer.name, fits=False, largest_batch=0, num_passes=math.inf, **nothing)
    factor = work_factor(here, offer.peaks, compute_share=compute_share)

    def doubted(law: Callable[[Work, float], float]) -> Forecast:
        low, value, high = (law(work, each) for each in (factor.low, factor.value, factor.high))
        return Forecast(value=value, low=low / doubt, high=high * doubt)

    seconds = doubted(run_seconds)
    return OfferForecast(
        name=offer.name,
        fits=room >= batch_size,
        largest_batch=room,
        num_passes=work.num_passes * max(1, math.ceil(batch_size / room)),
        step_seconds=doubted(seconds_of_update),
        seconds=seconds,
        money=_times(seconds, offer.price_per_hour / 3600),
    )


def _times(forecast: Forecast, factor: float) -> Forecast:
    return Forecast(value=forecast.value * factor, low=forecast.low * factor, high=forecast.high * factor)


def rank_offers(forecasts: Sequence[OfferForecast], by: str = "seconds") -> list[OfferForecast]:
    """From the least seconds or money to the most; what fits nothing comes last.

    >>> fast = Forecast(value=1.0, low=0.5, high=2.0)
    >>> slow = Forecast(value=3.0, low=2.0, high=4.0)
    >>> card = {"fits": True, "largest_batch": 9, "num_passes": 1, "step_seconds": fast}
    >>> costs = {"slow": {"seconds": slow, "money": fast}, "fast": {"seconds": fast, "money": slow}}
    >>> offers = [OfferForecast(name=name, **card, **cost) for name, cost in costs.items()]
    >>> [offer.name for offer in rank_offers(offers)], [offer.name for offer in rank_offers(offers, "money")]
    (['fast', 'slow'], ['slow', 'fast'])
    """

    def cost(offer: OfferForecast) -> float:
        found: Forecast | None = getattr(offer, by)
        return math.inf if found is None else found.value

    return sorted(forecasts, key=cost)
