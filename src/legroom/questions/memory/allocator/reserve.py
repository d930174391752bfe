"""The memory torch's allocator needs for steps that fit, at every batch size, from a few of them."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reserve:
    """Bytes needed at some batch sizes, from the smallest up; between two of them a straight line is drawn.

    >>> reserve = Reserve(((1, 1000), (11, 2000), (21, 4000)))
    >>> reserve.at(6), reserve.largest_batch(1500), reserve.largest_batch(3000), reserve.largest_batch(999)
    (1500.0, 6, 16, 0)
    """

    points: tuple[tuple[int, int], ...]

    def at(self, batch_size: float) -> float:
        """Bytes needed at that size; beyond the last point as the last two go on."""
        index = min(max(1, bisect_right([size for size, _ in self.points], batch_size)), len(self.points) - 1)
        return _between(batch_size, *self._ends(index)) if index else float(self.points[0][1])

    def largest_batch(self, budget_bytes: float) -> int:
        """The largest batch within the budget such that all smaller points are within it as well; 0 if none.

        Need may fall where a larger batch happens to leave better holes; nobody should count on that.
        """
        fitting = 0
        for _, needed in self.points:
            if needed > budget_bytes:
                break
            fitting += 1
        if fitting == 0:
            return 0
        low, high = self._ends(min(fitting, len(self.points) - 1))
        if high[1] <= low[1]:
            return self.points[fitting - 1][0]
        return int(_between(budget_bytes, low[::-1], high[::-1]))

    def _ends(self, index: int) -> Sequence[tuple[int, int]]:
        return self.points[max(0, index - 1)], self.points[index]


def _between(x: float, low: tuple[int, int], high: tuple[int, int]) -> float:
    """y at x on the line through two points."""
    return low[1] + (x - low[0]) * (high[1] - low[1]) / (high[0] - low[0])
