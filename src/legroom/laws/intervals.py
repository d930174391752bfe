"""How sure a median is: an interval from order statistics, which asks nothing of the noise but that it repeats.

    P(x_(k) < median < x_(n-k+1)) = 1 - 2 * (sum over i < k of C(n, i)) / 2^n

Timings have long tails, so an interval from a variance would be too wide or wrong. Source: H. A. David and
H. N. Nagaraja, Order Statistics, 3rd ed. (2003), section 7.1.
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
LEAST_SPREAD = 0.02
"""Half-width below which no interval of reruns is stated, as a share: the machine itself drifts by as much."""


def rerun_interval(values: Sequence[float]) -> tuple[float, float]:
    """Between which the median of another run lies in nine of ten, each value being what one process of a run gave.

        median * exp(+-t * s * sqrt(pi / n)),   s: standard deviation of ln(value)

    A median of n values varies by sqrt(pi / 2n) s (for normal noise), the difference of two by sqrt(2) times that.

    >>> low, high = rerun_interval([0.98, 0.99, 1.0, 1.01, 1.02])
    >>> round(low, 3), round(high, 3)
    (0.974, 1.027)
    >>> low, high = rerun_interval([1.0, 1.0, 9.0])
    >>> 0 < low < 1 < high
    True
    """
    middle, num = statistics.median(values), len(values)
    if num < 2:
        return middle, middle
    quantile = T_QUANTILES[min(num - 1, len(T_QUANTILES)) - 1]
    spread = statistics.stdev(math.log(value) for value in values)
    share = max(math.log1p(LEAST_SPREAD), quantile * spread * math.sqrt(math.pi / num))
    return middle * math.exp(-share), middle * math.exp(share)
