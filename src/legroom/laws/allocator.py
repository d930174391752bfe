"""PyTorch's CUDA allocator with expandable segments, replayed: the memory a list of births and deaths really needs.

Blocks are multiples of 512 bytes. Those up to 1 MiB come from a small pool, which grows by pages of 2 MiB, others from
a large one with pages of 20 MiB. A request takes the smallest free block that holds it, the lowest of equal ones; what
is left of the block stays free, and free neighbours merge. The free block at the end, which can grow, is taken last.
Where none is large enough the pool grows there.

Growth is refused when *reserved bytes + the whole request* exceed the cap, though the free end may lack only a part of
it. The allocator then gives all free pages back and tries again: a retry, in every step. A job with few huge blocks
retries when what it reserved is still one such block below the cap:

    needed = max over growths g of (reserved before g + request of g)

is the smallest cap without retries. It does not depend on the cap itself.

Source: c10/cuda/CUDACachingAllocator.cpp of PyTorch: get_free_block, should_split, alloc_block,
try_allocate_expandable_block, free_block.
"""

from bisect import bisect_left, insort

from legroom.laws.ledger import BLOCK_BYTES

MIB = 2**20
SMALL_BYTES = MIB
"""The largest block of the small pool."""
SMALL_PAGE, LARGE_PAGE = 2 * MIB, 20 * MIB
WEIGHED_BYTES = 10 * MIB
"""From here on a request is weighed against the cap by its own bytes, in whole small pages; below, by a page."""


class Pool:
    """One stretch of addresses from 0 to `mapped_bytes`: blocks that are taken, and free ones between them."""

    def __init__(self, page_bytes: int) -> None:
        self.page_bytes = page_bytes
        self.mapped_bytes = 0
        self._free: list[tuple[int, int]] = []
        """(size, address), smallest first."""
        self._size_at: dict[int, int] = {}
        self._start_before: dict[int, int] = {}
        """End of a free block -> its address."""

    def take(self, size: int) -> int | None:
        """The address of a block of that size; None where no free one is large enough."""
        index = bisect_left(self._free, (size, 0))
        if index < len(self._free) - 1 and sum(self._free[index]) == self.mapped_bytes:
            index += 1
        if index >= len(self._free):
            return None
        found, address = self._free[index]
        self._carve(address, found, size)
        return address

    def grow(self, size: int) -> int:
        """The address of a block of that size at the end, on as many new pages as it takes."""
        address = self._start_before.get(self.mapped_bytes, self.mapped_bytes)
        missing = size - (self.mapped_bytes - address)
        pages = _round_up(missing, self.page_bytes)
        self.mapped_bytes += pages
        self.give(self.mapped_bytes - pages, pages)
        self._carve(address, self._size_at[address], size)
        return address

    def give(self, address: int, size: int) -> None:
        """The block is free again, and one with its free neighbours."""
        before = self._start_before.get(address)
        if before is not None:
            self._remove(before, address - before)
            address, size = before, size + address - before
        after = self._size_at.get(address + size)
        if after is not None:
            self._remove(address + size, after)
            size += after
        insort(self._free, (size, address))
        self._size_at[address] = size
        self._start_before[address + size] = address

    def _carve(self, address: int, found: int, size: int) -> None:
        self._remove(address, found)
        if found > size:
            self.give(address + size, found - size)

    def _remove(self, address: int, size: int) -> None:
        del self._free[bisect_left(self._free, (size, address))]
        del self._size_at[address]
        del self._start_before[address + size]


class Allocator:
    """Both pools, and a name for each block.

    >>> allocator = Allocator()
    >>> for name in (0, 1):
    ...     allocator.take(name, 30 * MIB)
    >>> allocator.give(1)
    >>> allocator.take(2, 31 * MIB)  # the free end lacks 1 MiB: a page is added, but 32 MiB are asked for
    >>> allocator.reserved_bytes // MIB, allocator.needed_bytes // MIB
    (80, 92)
    """

    def __init__(self) -> None:
        self.needed_bytes = 0
        """The smallest cap under which nothing so far would have been refused."""
        self._small, self._large = Pool(SMALL_PAGE), Pool(LARGE_PAGE)
        self._blocks: dict[int, tuple[Pool, int, int]] = {}

    @property
    def reserved_bytes(self) -> int:
        """Bytes of all pages; they only grow."""
        return self._small.mapped_bytes + self._large.mapped_bytes

    def take(self, name: int, num_bytes: float) -> None:
        """Find a block for a new storage."""
        size = _round_up(int(num_bytes), BLOCK_BYTES)
        pool = self._small if size <= SMALL_BYTES else self._large
        address = pool.take(size)
        if address is None:
            asked = _round_up(size, SMALL_PAGE) if size >= WEIGHED_BYTES else pool.page_bytes
            self.needed_bytes = max(self.needed_bytes, self.reserved_bytes + asked)
            address = pool.grow(size)
        self._blocks[name] = (pool, address, size)

    def give(self, name: int) -> None:
        """The storage has died."""
        pool, address, size = self._blocks.pop(name)
        pool.give(address, size)


def _round_up(num_bytes: int, unit: int) -> int:
    return -(-num_bytes // unit) * unit
