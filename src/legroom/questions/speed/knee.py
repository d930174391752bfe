"""The knee: the smallest batch that surely has its share of the best throughput, by timings that noise moves.

    timed_i = g_i + noise_i,   g_i = smooth(log2 B_i) + rough_i,   all in ln samples/s

smooth: a curve whose slope changes by about BEND an octave (an integrated random walk, as of a smoothing spline);
rough: what caches and kernels do at one size, about ROUGH; noise: what the processes of one run say. g is what
neighbours and timing together foretell: where timings repeat themselves it is the timing, where they swing it lies
between neighbours. A size is enough where g_i - g_best is above ln(share), and SURE of its standard deviations lower
still above it less SLACK. The first of many noisy timings that seems to reach the highest of them is too small, and
another one each time.
Source: C. E. Rasmussen and C. K. I. Williams, Gaussian Processes for Machine Learning (2006), sections 2.2 and 6.3.
"""

import math
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from legroom.errors import NothingMeasured
from legroom.laws.compute import knee_of
from legroom.questions.speed.batch_sizes import grid
from legroom.questions.speed.records import SpeedQuestion, StepTime

BEND, ROUGH = 0.3, 0.05
FREE = 100.0
"""Variance of height and slope, of which nothing is known beforehand."""
SURE, SLACK = 1.64, 0.05
"""19 times of 20 a knee has no less than so little below its share."""
WIDTH = 3.0
"""Standard deviations in what processes of the same minutes differ by."""
LEAST_NOISE = 0.003


def find_knee(question: SpeedQuestion, points: Sequence[StepTime], own: Collection[int]) -> tuple[int, tuple[int, int]]:
    """The knee by the question's rule and between which it lies; `own` are sizes named beside those of the grid."""
    if question.rule == "utilisation":
        return _busy_enough(worth_naming(points, own), question.share)
    return timed_knee(points, own, question.share)


def timed_knee(points: Sequence[StepTime], own: Collection[int], share: float) -> tuple[int, tuple[int, int]]:
    """The smallest size that surely has its share, and by the timings alone has it too; no law decides it."""
    worth, least = worth_naming(points, own), share * max(point.samples_per_second for point in points)
    values, deviations = smoothed(worth)
    fast = [place for place, point in enumerate(worth) if point.samples_per_second >= least]
    if not fast:  # only a size beside a power of two is fast
        knee = max(points, key=lambda point: point.samples_per_second).batch_size
        return knee, (knee, knee)
    best, wanted = max(fast, key=lambda place: values[place]), math.log(share)
    highs, lows = values + SURE * deviations, values - SURE * deviations
    enough = (highs >= wanted, (values >= wanted) & (lows >= wanted - SLACK), lows >= wanted)
    among = (range(len(worth)), fast, range(len(worth)))  # it may lie at sizes that were unlucky this time
    places = (next((place for place in each if has[place]), best) for each, has in zip(among, enough, strict=True))
    low, knee, high = (worth[place].batch_size for place in places)
    return knee, (min(low, knee), max(high, knee))


def smoothed(points: Sequence[StepTime]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """ln of each size's throughput as a share of the best, by neighbours too, and the standard deviation of that."""
    octaves = np.log2([point.batch_size / points[0].batch_size for point in points])
    near, far = np.minimum.outer(octaves, octaves), np.maximum.outer(octaves, octaves)
    curves = FREE * (1 + near * far) + BEND**2 * near**2 * (3 * far - near) / 6
    prior = curves + ROUGH**2 * np.eye(len(points))
    gain = prior @ np.linalg.inv(prior + np.diag([_noise(point) ** 2 for point in points]))
    values, covariance = gain @ np.log([point.samples_per_second for point in points]), prior - gain @ prior
    best, own = int(values.argmax()), np.diag(covariance)
    return values - values[best], np.sqrt(np.maximum(0.0, own + own[best] - 2 * covariance[best]))


def _noise(point: StepTime) -> float:
    return max(LEAST_NOISE, point.noise / WIDTH)


def worth_naming(points: Sequence[StepTime], own: Collection[int]) -> list[StepTime]:
    """Points at sizes of the grid or of the user's own: 504, timed beside 512, is no advice.

    >>> points = [StepTime(batch_size=size) for size in (1, 24, 31, 32, 50)]
    >>> [point.batch_size for point in worth_naming(points, own={31})]
    [1, 24, 31, 32, 50]
    """
    sizes = [point.batch_size for point in points]
    worth = {*grid(min(sizes), max(sizes)), *own}
    return [point for point in points if point.batch_size in worth]


def _busy_enough(points: Sequence[StepTime], share: float) -> tuple[int, tuple[int, int]]:
    """The smallest size timed that keeps the device within the share of the busiest it was."""
    shares = {p.batch_size: p.load.utilisation for p in points if p.load.utilisation is not None}
    if not shares:
        raise NothingMeasured(
            "The rule utilisation needs the device's utilisation, and it could not be read here. "
            "The timings are kept: ask again with --rule throughput --resume"
        )
    knee = knee_of(lambda size: shares[size], sorted(shares), share)
    return knee, (max((size for size in shares if size < knee), default=knee), knee)
