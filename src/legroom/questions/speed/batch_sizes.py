"""Batch sizes worth trying: a grid of powers of two with one size between each pair, and which four tell the most."""

import bisect
import itertools
import math
from collections.abc import Callable, Sequence

NUM_LAW_SIZES = 4
"""Sizes a law is fitted from."""
WIDTH_DOUBT = 0.3
"""Doubt of every octave, whatever time does across it: caches bend it where nobody expects."""
UPPER, MARGIN = 0.8, 0.35
"""Where in the range, by octaves, the upper size lies, and how far from the ends of a gap the last one.

Both were chosen on ten small models on a CPU and sixty planted curves.
"""


def grid(low: int, high: int) -> list[int]:
    """2^k and 3*2^k from low to high, and both ends.

    >>> grid(1, 20)
    [1, 2, 3, 4, 6, 8, 12, 16, 20]
    """
    inner = {base << power for power in range(high.bit_length()) for base in (1, 3)}
    return sorted({low, high} | {size for size in inner if low < size < high})


def largest_on_grid(limit: int) -> int:
    """The largest size of the grid that is not above the limit.

    >>> largest_on_grid(1437), largest_on_grid(1)
    (1024, 1)
    """
    power = limit.bit_length() - 1
    return max(size for size in (1 << power, 3 << max(0, power - 1)) if size <= limit)


def powers_of_two(sizes: Sequence[int]) -> list[int]:
    """Those of the sizes that are powers of two."""
    return [size for size in sizes if size & (size - 1) == 0]


def odd_sizes(near: int, sizes: Sequence[int]) -> list[int]:
    """A power of two near that size, with a multiple of 8 and an odd number right below it.

    >>> odd_sizes(96, [1, 1024]), odd_sizes(4, [1, 1024])
    ([120, 127, 128], [])
    """
    power = 1 << (near - 1).bit_length()
    power = power if power <= sizes[-1] else power >> 1
    return [size for size in (power - 8, power - 1, power) if size >= sizes[0]] if power >= 32 else []


def choose_sizes(candidates: Sequence[int], seconds_at: Callable[[int], float]) -> list[int]:
    """At most four of the sizes: both ends, one in the upper part, and one in the gap that leaves most open.

    The upper part comes first: there lies the knee, and there caches end.

    A step's time grows between not at all and in proportion to the batch. Across a gap of `width` octaves with a `rise`
    of time, it may first stay flat and then grow, or the other way round: the two differ by min(rise, width - rise).

    >>> choose_sizes([1, 2, 4, 8, 16, 32, 64, 128], lambda size: max(8, size))
    [1, 8, 64, 128]
    """
    sizes = sorted(candidates)
    chosen = sorted({sizes[0], sizes[-1]})
    if inner := _between(sizes, sizes[0], sizes[-1]):
        chosen.insert(1, _nearest(inner, _place(sizes[0], sizes[-1], UPPER)))
    while len(chosen) < min(NUM_LAW_SIZES, len(sizes)):
        gaps = [gap for gap in itertools.pairwise(chosen) if _between(sizes, *gap)]
        gap = max(gaps, key=lambda gap: _doubt(gap, seconds_at))
        chosen = sorted([*chosen, _bend(gap, _between(sizes, *gap), seconds_at)])
    return chosen


def _between(sizes: Sequence[int], low: int, high: int) -> Sequence[int]:
    return sizes[bisect.bisect_right(sizes, low) : bisect.bisect_left(sizes, high)]


def _doubt(gap: tuple[int, int], seconds_at: Callable[[int], float]) -> float:
    width, rise = _measures(gap, seconds_at)
    return max(0.0, min(rise, width - rise)) + WIDTH_DOUBT * width


def _bend(gap: tuple[int, int], inner: Sequence[int], seconds_at: Callable[[int], float]) -> int:
    """The size nearest to where a flat line meets a proportional one, away from both ends by a share of the gap."""
    width, rise = _measures(gap, seconds_at)
    return _nearest(inner, _place(*gap, min(1 - MARGIN, max(MARGIN, 1 - rise / width))))


def _place(low: int, high: int, share: float) -> float:
    """The size at that share of the way from low to high, by octaves."""
    return low * math.pow(high / low, share)


def _nearest(sizes: Sequence[int], wanted: float) -> int:
    return min(sizes, key=lambda size: abs(math.log2(size / wanted)))


def _measures(gap: tuple[int, int], seconds_at: Callable[[int], float]) -> tuple[float, float]:
    low, high = gap
    return math.log2(high / low), math.log2(seconds_at(high) / seconds_at(low))
