"""A traced job's whole history given to a replay of torch's allocator, at batch sizes in a grid.

The first step counts as much as later ones: gradients, optimizer state and workspaces are born among its activations,
and later steps live with the holes between them. So everything since the weights were loaded is replayed, with each
storage's bytes on their line in the batch size.

Most jobs leave few holes: what they need without any retry is within 4 % of what is alive, and is the answer. Where
holes cost more, the smallest cap is sought under which the steps fit, retries of the first two allowed, in segments
that grow and in torch's default, fixed ones.
"""

from collections.abc import Callable

from legroom.environments import Allocator as Kind
from legroom.laws.memory import LARGEST_BATCH, MemoryLaw
from legroom.questions.memory.allocator.envelope import pair
from legroom.questions.memory.allocator.ledger import Trace
from legroom.questions.memory.allocator.reserve import Reserve
from legroom.questions.memory.allocator.steps import Steps, steps_at

SMALLEST_BUDGET, RATIO, NUM_BUDGETS = 2**27, 1.2, 43
"""The grid's sizes are those whose storages come to 128 MiB, and by steps of a fifth to 270 GiB."""

EXTRA_BYTES, EXTRA_SHARE = 30 * 2**20, 0.005
"""What a replay misses: buffers of libraries, and kernels' own small temporaries. Chosen with the 26 cells in sight."""

HOLED_BYTES, HOLED_SHARE = 2**27, 0.05
"""Holes beyond this are worth the search for a smaller cap. Of 17 jobs traced, 11 stay below 4 %, 6 are above 10 %."""

PRECISION = 0.005
"""Share of a cap to which it is sought."""


def fit_reserves(
    small: Trace, large: Trace, law: MemoryLaw, beat: Callable[[str], None] = lambda phase: None
) -> dict[Kind, Reserve]:
    """The need behind two histories, by allocator; empty where their events cannot be paired.

    The default allocator is left out where growing segments need no more anywhere. `law` is the one of the storages'
    own bytes: it says which sizes are worth a replay.

    >>> def history(size):
    ...     born = Event(storage=0, num_bytes=2**20 * size, phase="forward", category="activations")
    ...     return Trace(batch_size=size, events=(born,))
    >>> from legroom.questions.memory.allocator.envelope import fit
    >>> from legroom.questions.memory.allocator.ledger import Event
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
