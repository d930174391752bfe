"""A traced job's whole history given to a replay of torch's allocator, at batch sizes in a grid.

The first step counts as much as later ones: gradients, optimizer state and workspaces are born among its activations,
and later steps live with the holes between them. So everything since the weights were loaded is replayed, with each
storage's bytes on their line in the batch size. Two steps are enough: three and five gave the same largest batch in all
26 cells of validation/2026-11-15-h200-memory.
"""

from collections.abc import Sequence

from legroom.laws.allocator import Allocator
from legroom.laws.envelope import Size, pair
from legroom.laws.ledger import Event, Trace
from legroom.laws.memory import LARGEST_BATCH, MemoryLaw
from legroom.laws.reserve import Reserve

SMALLEST_BUDGET, RATIO, NUM_BUDGETS = 2**27, 1.2, 43
"""The grid's sizes are those whose storages come to 128 MiB, and by steps of a fifth to 270 GiB."""

EXTRA_BYTES, EXTRA_SHARE = 30 * 2**20, 0.005
"""What a replay misses: buffers of libraries, and kernels' own small temporaries. Chosen with the 26 cells in sight."""


def fit_reserve(small: Trace, large: Trace, law: MemoryLaw) -> Reserve | None:
    """The need behind two histories; None where their events cannot be paired.

    `law` is the one of the storages' own bytes: it says which sizes are worth a replay.

    >>> def history(size):
    ...     born = Event(storage=0, num_bytes=2**20 * size, phase="forward", category="activations")
    ...     return Trace(batch_size=size, events=(born,))
    >>> from legroom.laws.envelope import fit
    >>> reserve = fit_reserve(history(4), history(8), fit(history(4), history(8))[0])
    >>> reserve.largest_batch(8 * 2**30)  # less 30 MiB and 0.5 %
    8120
    """
    moments = pair(small, large)
    if moments is None:
        return None
    points = ((size, replay(moments, size).needed_bytes) for size in _grid(law))
    return Reserve(tuple((size, round(EXTRA_BYTES + (1 + EXTRA_SHARE) * needed)) for size, needed in points))


def replay(moments: Sequence[tuple[Event, Size]], batch_size: int) -> Allocator:
    """The allocator after all events, at that batch size."""
    allocator = Allocator()
    alive: set[int] = set()
    for event, (fixed, slope) in moments:
        if event.num_bytes is None:
            if event.storage in alive:
                alive.remove(event.storage)
                allocator.give(event.storage)
        elif fixed + slope * batch_size > 0:  # nothing is allocated for an empty tensor
            alive.add(event.storage)
            allocator.take(event.storage, fixed + slope * batch_size)
    return allocator


def _grid(law: MemoryLaw) -> list[int]:
    budgets = (SMALLEST_BUDGET * RATIO**step for step in range(NUM_BUDGETS))
    return sorted({min(LARGEST_BATCH, max(1, law.largest_batch(budget))) for budget in budgets} | {1})
