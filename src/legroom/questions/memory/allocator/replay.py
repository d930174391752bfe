"""PyTorch's CUDA allocator, replayed: the memory that a job's births and deaths of storages really need.

Blocks are multiples of 512 bytes. Those up to 1 MiB come from a small pool, which grows by 2 MiB, others from a large
one, which grows by pages of 20 MiB or, in fixed segments, by 20 MiB at least.

Growth is refused when *reserved bytes + the whole request* exceed the cap, though a free end may lack only a part of
it. The allocator then gives back all memory that is wholly free and tries again: a retry. A second refusal is the end.
Without any retry the smallest cap is

    needed = max over growths g of (reserved before g + request of g)

and does not depend on the cap itself. Retries leave a heap that a smaller cap may hold: free memory has been given
back and blocks are laid out anew.

Source: c10/cuda/CUDACachingAllocator.cpp of PyTorch: malloc, alloc_block, release_cached_blocks, free_block.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from legroom.environments import Allocator as Kind
from legroom.questions.memory.allocator.pools import (
    BLOCK_BYTES,
    ENDLESS,
    LARGE_PAGE,
    MIB,
    SMALL_PAGE,
    FixedPool,
    GrowingPool,
    round_up,
    weigh,
)
from legroom.questions.memory.allocator.trace_law import Event, Size

SMALL_BYTES = MIB
"""The largest block of the small pool."""
Pool = GrowingPool | FixedPool
POOLS: Mapping[Kind, type[Pool]] = {"expandable": GrowingPool, "default": FixedPool}
NUM_STEPS, NUM_RETRYING = 5, 2
"""Steps of a proof, and how many of them may retry."""

Moves = list[tuple[int, int]]
"""Storages, each with its bytes at birth and with 0 at death."""


class Allocator:
    """Both pools, and a name for each block.

    >>> allocator = Allocator()
    >>> allocator.take(0, 30 * MIB), allocator.take(1, 30 * MIB)
    (True, True)
    >>> allocator.give(1)
    >>> allocator.take(2, 31 * MIB)  # the free end lacks 1 MiB: a page is added, but 32 MiB are asked for
    True
    >>> allocator.reserved_bytes // MIB, allocator.needed_bytes // MIB
    (80, 92)
    """

    def __init__(self, kind: Kind = "expandable", cap_bytes: float = ENDLESS) -> None:
        self.cap_bytes = cap_bytes
        self.num_retries = 0
        self.needed_bytes = 0
        """The smallest cap under which nothing so far would have been refused."""
        self._small: Pool = POOLS[kind](SMALL_PAGE)
        self._large: Pool = POOLS[kind](LARGE_PAGE)
        self._blocks: dict[int, tuple[Pool, int, int]] = {}

    @property
    def reserved_bytes(self) -> int:
        """Bytes held of the card."""
        return self._small.mapped_bytes + self._large.mapped_bytes

    def take(self, name: int, num_bytes: int) -> bool:
        """Find a block for a new storage; False where the cap leaves none."""
        size = round_up(num_bytes, BLOCK_BYTES)
        pool = self._small if size <= SMALL_BYTES else self._large
        block = pool.take(size)
        if block is None:
            if not self._may_grow(weigh(pool.page_bytes, size)):
                return False
            block = pool.grow(size)
        self._blocks[name] = (pool, *block)
        return True

    def give(self, name: int) -> None:
        """The storage has died; one that is not there weighed nothing."""
        if name in self._blocks:
            pool, address, size = self._blocks.pop(name)
            pool.give(address, size)

    def _may_grow(self, asked: int) -> bool:
        self.needed_bytes = max(self.needed_bytes, self.reserved_bytes + asked)
        if self.reserved_bytes + asked > self.cap_bytes:
            self.num_retries += 1
            self._large.release()
            self._small.release()
        return self.reserved_bytes + asked <= self.cap_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """What is born and dies at one batch size."""

    first: Moves
    """All until the second step begins, weights included."""
    again: Moves
    """The second step; later ones are its like."""
    after: Moves
    """An evaluation."""

    def needed_bytes(self, kind: Kind = "expandable") -> int:
        """The smallest cap without any retry. Two steps tell: five gave the same largest batch in 26 cells."""
        allocator = Allocator(kind)
        for moves in (self.first, self.again, self.after):
            _play(allocator, moves)
        return allocator.needed_bytes

    def fits(self, kind: Kind, cap_bytes: float) -> bool:
        """Whether it runs as on a card: nothing is refused twice, nor once from the third step on."""
        allocator = Allocator(kind, cap_bytes)
        if not _play(allocator, self.first):
            return False
        later = repeated(self.first, self.again)
        for step in range(2, NUM_STEPS + 1):
            before = allocator.num_retries
            ran = _play(allocator, self.again if step == 2 else later)
            if not ran or (step > NUM_RETRYING and allocator.num_retries > before):
                return False
        return _play(allocator, self.after)


def steps_at(moments: Sequence[tuple[Event, Size]], second_step: tuple[int, int], batch_size: int) -> Steps:
    """A history's moves at that size; `second_step` says which of its events are those of the second step.

    >>> born = Event(storage=0, num_bytes=100, phase="forward", category="activations")
    >>> steps_at([(born, (20.0, 10.0))], (1, 1), 4).first
    [(0, 60)]
    """
    start, stop = second_step
    sizes = (fixed + slope * batch_size for _, (fixed, slope) in moments)
    moves = [
        (event.storage, 0 if event.num_bytes is None else max(0, int(size)))
        for (event, _), size in zip(moments, sizes, strict=True)
    ]
    return Steps(first=moves[:start], again=moves[start:stop], after=moves[stop:])


def repeated(first: Moves, again: Moves) -> Moves:
    """The second step as later ones are: what it buries of the first is, in them, its own of the step before.

    Where gradients live until the next step begins, as with `zero_grad(); backward(); step()`, each of the first is
    followed by one of as many bytes that outlives the second.

    >>> repeated([(0, 8)], [(0, 0), (1, 90), (2, 8), (1, 0)])
    [(2, 0), (1, 90), (2, 8), (1, 0)]
    """
    bytes_before = {storage: num_bytes for storage, num_bytes in first if num_bytes}
    born = {storage: num_bytes for storage, num_bytes in again if num_bytes}
    buried = {storage for storage, num_bytes in again if not num_bytes}
    heirs: dict[int, deque[int]] = defaultdict(deque)
    for storage, num_bytes in born.items():
        if storage not in buried:
            heirs[num_bytes].append(storage)

    def heir(storage: int) -> int:
        waiting = heirs[bytes_before.get(storage, 0)]
        return waiting.popleft() if storage not in born and waiting else storage

    return [(storage if num_bytes else heir(storage), num_bytes) for storage, num_bytes in again]


def _play(allocator: Allocator, moves: Iterable[tuple[int, int]]) -> bool:
    """Whether all of it was granted. What is born again in a repeated step replaces its like of the step before."""
    for storage, num_bytes in moves:
        allocator.give(storage)
        if num_bytes and not allocator.take(storage, num_bytes):
            return False
    return True
