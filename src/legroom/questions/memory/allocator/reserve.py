"""The memory torch's allocator needs for steps that fit, at every batch size, from replays at a few.

The first step counts as much as later ones: gradients, optimizer state and workspaces are born among its activations,
and later steps live with the holes between them. So everything since the weights were loaded is replayed, with each
storage's bytes on their line in the batch size.

Most jobs leave few holes: what they need without any retry is within 4 % of what is alive, and is the answer. Where
holes cost more, the smallest cap is sought under which the steps fit, retries of the first two allowed, in segments
that grow and in torch's default, fixed ones.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from legroom.environments import Allocator as Kind
from legroom.laws.memory import LARGEST_BATCH, MemoryLaw
from legroom.questions.memory.allocator.replay import Steps, steps_at
from legroom.questions.memory.allocator.trace_law import Trace, pair

SMALLEST_BUDGET, RATIO, NUM_BUDGETS = 2**27, 1.2, 43
"""The grid's sizes are those whose storages come to 128 MiB, and by steps of a fifth to 270 GiB."""
EXTRA_BYTES, EXTRA_SHARE = 30 * 2**20, 0.005
"""What a replay misses: buffers of libraries, and kernels' own small temporaries. Chosen with the 26 cells in sight."""
HOLED_BYTES, HOLED_SHARE = 2**27, 0.05
"""Holes beyond this are worth the search for a smaller cap. Of 17 jobs traced, 11 stay below 4 %, 6 are above 10 %."""
PRECISION = 0.005
"""Share of a cap to which it is sought."""


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


def fit_reserves(
    small: Trace, large: Trace, law: MemoryLaw, beat: Callable[[str], None] = lambda phase: None
) -> dict[Kind, Reserve]:
    """The need behind two histories, by allocator; empty where their events cannot be paired.

    The default allocator is left out where growing segments need no more anywhere. `law` is the one of the storages'
    own bytes: it says which sizes are worth a replay.

    >>> def history(size):
    ...     born = Event(storage=0, num_bytes=2**20 * size, phase="forward", category="activations")
    ...     return Trace(batch_size=size, events=(born,))
    >>> from legroom.questions.memory.allocator.trace_law import Event, fit
    >>> reserves = fit_reserves(history(4), history(8), fit(history(4), history(8))[0])
    >>> reserves["expandable"].largest_batch(8 * 2**30)  # less 30 MiB and 0.5 %
    8120
    """
    moments = pair(small, large)
    if moments is None:
        return {}
    marks = large.second_step or (len(moments), len(moments))
    needs = {}
    for size in _grid(law):
        beat("replay")
        needs[size] = _needs(steps_at(moments, marks, size), law.at(size))
    growing, lesser = (
        Reserve(tuple((size, round(EXTRA_BYTES + (1 + EXTRA_SHARE) * need[which])) for size, need in needs.items()))
        for which in (0, 1)
    )
    return {"expandable": growing} if lesser == growing else {"expandable": growing, "default": lesser}


def _needs(steps: Steps, alive_bytes: float) -> tuple[float, float]:
    """The smallest cap of growing segments, and that of fixed ones where it is smaller."""
    needed = steps.needed_bytes()
    if needed - alive_bytes <= max(HOLED_BYTES, HOLED_SHARE * alive_bytes):
        return needed, needed
    growing = _smallest_cap(steps, "expandable", alive_bytes, needed)
    if not steps.fits("default", growing):
        return growing, growing
    return growing, _smallest_cap(steps, "default", alive_bytes, growing)


def _smallest_cap(steps: Steps, kind: Kind, low: float, high: float) -> float:
    """A cap that holds the steps, next to one that does not; `high` must hold them."""
    while high - low > PRECISION * low:
        middle = (low + high) / 2
        low, high = (low, middle) if steps.fits(kind, middle) else (middle, high)
    return high


def _grid(law: MemoryLaw) -> list[int]:
    budgets = (SMALLEST_BUDGET * RATIO**step for step in range(NUM_BUDGETS))
    return sorted({min(LARGEST_BATCH, max(1, law.largest_batch(budget))) for budget in budgets} | {1})
