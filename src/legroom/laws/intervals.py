"""How sure a median of many timings is, and a mean of few processes.

    P(x_(k) < median < x_(n-k+1)) = 1 - 2 * (sum over i < k of C(n, i)) / 2^n

Timings of one process have long tails, so an interval from a variance would be too wide or wrong; order statistics ask
nothing of the noise but that it repeats. Source: H. A. David and H. N. Nagaraja, Order Statistics, 3rd ed. (2003),
section 7.1. Processes are few and fall into modes, one of which a median picks; there a mean of logarithms serves.
"""

import math
import statistics
from collections.abc import Sequence

LEVEL = 0.95


def median_interval(values: Sequence[float], level: float = LEVEL) -> tuple[float, float]:
    """Between which the median lies at that level; of fewer than six values, all of their range.

    >>> median_interval([5.0, 1.0, 4.0, 2.0, 3.0])
    (1.0, 5.0)
    >>> median_interval([float(value) for value in range(1, 21)])
    (6.0, 15.0)
    """
    ordered, num = sorted(values), len(values)
    skipped, tail = 0, 1 / 2**num
    while 2 * (skipped + 1) < num:
        tail += math.comb(num, skipped + 1) / 2**num
        if 2 * tail > 1 - level:
            break
        skipped += 1
    return ordered[skipped], ordered[num - 1 - skipped]


def relative_width(values: Sequence[float], level: float = LEVEL) -> float:
    """Half the interval as a share of the median.

    >>> relative_width([0.98, 1.0, 1.02])
    0.02
    """
    low, high = median_interval(values, level)
    return round((high - low) / 2 / statistics.median(values), 12)


T_QUANTILES = (6.31, 2.92, 2.35, 2.13, 2.02, 1.94, 1.89, 1.86, 1.83, 1.81, 1.80)
"""Of Student's t at 95 %, from one degree of freedom on."""
FARTHEST = math.log(1.5)
"""How far from the median a process counts at most: a slow moment of a small step can be a hundredfold."""
LEAST_SPREAD = 0.02
"""What processes differ by at least, as a share: a few that agree do so by chance."""
DRIFT = 0.07
"""Standard deviation of ln(value) from run to run, beside that of processes: minutes of one machine differ.

Chosen with three sets of rows at hand, of which it holds 91, 97 and 86 % of reruns; 0.06, fitted to the first alone,
holds 96 and 84 % of the others (validation/2026-11-18-two-cores-plain-loop).
"""
NORMAL_QUANTILE = 1.645


def process_mean(values: Sequence[float]) -> tuple[float, float]:
    """The mean of ln(value), as a value, and by which share another of as many processes in the same minutes differs.

        t * s * sqrt(2 / n),   s: standard deviation of ln(value), one value a process

    A mean of n values varies by s / sqrt(n), the difference of two by sqrt(2) times that; t for nine of ten.

    >>> mean, share = process_mean([0.98, 0.99, 1.0, 1.01, 1.02])
    >>> round(mean, 3), round(share, 3)
    (1.0, 0.021)
    """
    middle, num = statistics.median(values), len(values)
    logs = [max(-FARTHEST, min(FARTHEST, math.log(value / middle))) for value in values]
    mean = middle * math.exp(statistics.fmean(logs))
    if num < 2:
        return mean, 0.0
    quantile = T_QUANTILES[min(num - 1, len(T_QUANTILES)) - 1]
    return mean, max(LEAST_SPREAD, quantile * statistics.stdev(logs) * math.sqrt(2 / num))


def rerun_mean(values: Sequence[float]) -> tuple[float, tuple[float, float]]:
    """The same mean, and between which that of another run lies in nine of ten: its processes and its minutes differ.

    >>> mean, (low, high) = rerun_mean([0.98, 0.99, 1.0, 1.01, 1.02])
    >>> round(mean, 3), round(low, 3), round(high, 3)
    (1.0, 0.848, 1.178)
    >>> mean, (low, high) = rerun_mean([1.0, 1.0, 9.0])
    >>> round(mean, 2), 0 < low < mean < high
    (1.14, True)
    """
    mean, share = process_mean(values)
    share = math.hypot(share, NORMAL_QUANTILE * math.sqrt(2) * DRIFT)
    return mean, (mean * math.exp(-share), mean * math.exp(share))


def ratio_mean(ratios: Sequence[float]) -> tuple[float, tuple[float, float] | None]:
    """The mean of ln(ratio), as a ratio, and between which that of endless pairs lies at 90 %; one pair tells no range.

        mean * exp(+-t * s / sqrt(n)),   s: standard deviation of ln(ratio), one ratio a pair

    >>> mean, (low, high) = ratio_mean([1.9, 2.0, 2.1])
    >>> round(mean, 2), round(low, 2), round(high, 2)
    (2.0, 1.84, 2.17)
    >>> ratio_mean([1.0])
    (1.0, None)
    """
    logs, num = [math.log(ratio) for ratio in ratios], len(ratios)
    mean = statistics.fmean(logs)
    if num < 2:
        return math.exp(mean), None
    share = T_QUANTILES[min(num - 1, len(T_QUANTILES)) - 1] * statistics.stdev(logs) / math.sqrt(num)
    return math.exp(mean), (math.exp(mean - share), math.exp(mean + share))
