"""PyTorch's CUDA allocator, replayed: the memory a list of births and deaths really needs.

Blocks are multiples of 512 bytes. Those up to 1 MiB come from a small pool, which grows by 2 MiB, others from a large
one, which grows by pages of 20 MiB or, in fixed segments, by 20 MiB at least.

Growth is refused when *reserved bytes + the whole request* exceed the cap, though a free end may lack only a part of
it. The allocator then gives back all memory that is wholly free and tries again: a retry. A second refusal is the end.
Without any retry the smallest cap is

    needed = max over growths g of (reserved before g + request of g)

and does not depend on the cap itself. Retries leave a heap that a smaller cap may hold.

Source: c10/cuda/CUDACachingAllocator.cpp of PyTorch: malloc, alloc_block, release_cached_blocks, free_block.
"""

from collections.abc import Mapping

from legroom.environments import Allocator as Kind
from legroom.questions.memory.allocator.free_blocks import round_up
from legroom.questions.memory.allocator.ledger import BLOCK_BYTES
from legroom.questions.memory.allocator.pools import (
    ENDLESS,
    LARGE_PAGE,
    MIB,
    SMALL_PAGE,
    FixedPool,
    GrowingPool,
    Pool,
    weigh,
)

SMALL_BYTES = MIB
"""The largest block of the small pool."""

POOLS: Mapping[Kind, type[GrowingPool] | type[FixedPool]] = {"expandable": GrowingPool, "default": FixedPool}


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
            if not self._may_grow(weigh(pool, size)):
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
