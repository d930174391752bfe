"""Pools of PyTorch's CUDA allocator: one stretch of addresses whose pages come and go, or segments of fixed size.

Source: c10/cuda/CUDACachingAllocator.cpp of PyTorch: get_free_block, should_split, get_allocation_size,
find_expandable_block, map_block, unmap_block, release_blocks.
"""

from bisect import bisect_left, insort

MIB = 2**20
BLOCK_BYTES = 512
"""Each block is rounded up to this."""
SMALL_PAGE, LARGE_PAGE = 2 * MIB, 20 * MIB
WEIGHED_BYTES = 10 * MIB
"""From here on a request is weighed against the cap by its own bytes, in whole small pages; below, by a page."""
ENDLESS = 2**60

Block = tuple[int, int]
"""Address and size of what was taken."""


def round_up(num_bytes: int, unit: int) -> int:
    """The smallest multiple of the unit that is not less.

    >>> round_up(1, 512), round_up(512, 512)
    (512, 512)
    """
    return -(-num_bytes // unit) * unit


class FreeBlocks:
    """Free stretches of one pool by size and by place; those that touch are one.

    >>> free = FreeBlocks()
    >>> free.put(0, 10)
    >>> free.put(10, 5)
    >>> free.carve(0, 12)
    12
    >>> free.by_size
    [(3, 12)]
    """

    def __init__(self) -> None:
        self.by_size: list[tuple[int, int]] = []
        """(size, address), smallest first and the lowest of equal ones first."""
        self.size_at: dict[int, int] = {}
        self._start_before: dict[int, int] = {}
        """End of a block -> its address."""

    def put(self, address: int, size: int) -> None:
        """Add a block, and make it one with its neighbours."""
        before = self.start_before(address)
        if before < address:
            size += self.remove(before)
            address = before
        if address + size in self.size_at:
            size += self.remove(address + size)
        insort(self.by_size, (size, address))
        self.size_at[address] = size
        self._start_before[address + size] = address

    def remove(self, address: int) -> int:
        """Take a whole block away, and tell its size."""
        size = self.size_at.pop(address)
        del self.by_size[bisect_left(self.by_size, (size, address))]
        del self._start_before[address + size]
        return size

    def carve(self, address: int, size: int, spare: int = 0) -> int:
        """Take so many bytes from a block's start, the whole block where no more than `spare` would be left."""
        found = self.remove(address)
        if found - size <= spare:
            return found
        self.put(address + size, found - size)
        return size

    def first_of(self, size: int) -> int:
        """Index in `by_size` of the smallest block of at least that size; the length of `by_size` if there is none."""
        return bisect_left(self.by_size, (size, 0))

    def start_before(self, address: int) -> int:
        """The start of the block that ends there; the address itself if none does."""
        return self._start_before.get(address, address)


def weigh(page_bytes: int, size: int) -> int:
    """The bytes that a request beyond the free blocks of a pool is weighed with against the cap."""
    return round_up(size, SMALL_PAGE) if size >= WEIGHED_BYTES else page_bytes


class GrowingPool:
    """Expandable segments: addresses without end, on pages that are mapped where they are needed.

    A request takes the smallest free block that holds it, the lowest of equal ones. A block before a hole counts as
    large as it could grow, so the free end is taken last. Growth begins at the lowest hole that is wide enough, in the
    free block before it.
    """

    def __init__(self, page_bytes: int) -> None:
        self.page_bytes, self.mapped_bytes = page_bytes, 0
        """mapped_bytes: what the pool holds of the card."""
        self._free, self._holes = FreeBlocks(), FreeBlocks()
        self._holes.put(0, ENDLESS)

    def take(self, size: int) -> Block | None:
        """The free block that fits best."""
        blocks, index = self._free.by_size, self._free.first_of(size)
        if index == len(blocks):
            return None
        while index + 1 < len(blocks) and self._room(*blocks[index + 1]) < self._room(*blocks[index]):
            index += 1
        address = blocks[index][1]
        return address, self._free.carve(address, size)

    def grow(self, size: int) -> Block:
        """A block on new pages, at the lowest address with room for it."""
        starts = (self._free.start_before(hole) for hole in sorted(self._holes.size_at))
        address = next(start for start in starts if self._reaches(start, size))
        while (found := self._free.size_at.get(address, 0)) < size:
            self._map(address + found, size - found)
        return address, self._free.carve(address, size)

    def give(self, address: int, size: int) -> None:
        """The block is free again."""
        self._free.put(address, size)

    def release(self) -> None:
        """Unmap every page without a block on it."""
        for size, address in list(self._free.by_size):
            start, end = round_up(address, self.page_bytes), (address + size) // self.page_bytes * self.page_bytes
            if start < end:
                self._free.remove(address)
                for left, until in ((address, start), (end, address + size)):
                    if left < until:
                        self._free.put(left, until - left)
                self._holes.put(start, end - start)
                self.mapped_bytes -= end - start

    def _room(self, size: int, address: int) -> int:
        return size + self._holes.size_at.get(address + size, 0)

    def _reaches(self, start: int, size: int) -> bool:
        """Whether free blocks and holes, side by side from there on, are as wide as that."""
        end = start
        while end - start < size:
            width = self._free.size_at.get(end) or self._holes.size_at.get(end)
            if width is None:
                return False
            end += width
        return True

    def _map(self, address: int, size: int) -> None:
        pages = self._holes.carve(address, min(round_up(size, self.page_bytes), self._holes.size_at[address]))
        self.mapped_bytes += pages
        self._free.put(address, pages)


class FixedPool:
    """Torch's default: segments that neither grow nor join. Only those without any block are given back."""

    def __init__(self, page_bytes: int) -> None:
        self.page_bytes, self.mapped_bytes = page_bytes, 0
        self._free = FreeBlocks()
        self._segments: dict[int, int] = {}
        self._end = 0
        self._spare = MIB if page_bytes > SMALL_PAGE else 0
        """What is left of a large block goes with it up to here."""

    def take(self, size: int) -> Block | None:
        """The smallest free block that holds it, in any segment."""
        index = self._free.first_of(size)
        if index == len(self._free.by_size):
            return None
        address = self._free.by_size[index][1]
        return address, self._free.carve(address, size, self._spare)

    def grow(self, size: int) -> Block:
        """A block at the start of a new segment."""
        address, segment = self._end, weigh(self.page_bytes, size)
        self._end += segment + 1  # a gap, so that segments never touch
        self._segments[address] = segment
        self.mapped_bytes += segment
        self._free.put(address, segment)
        return address, self._free.carve(address, size, self._spare)

    def give(self, address: int, size: int) -> None:
        """The block is free again."""
        self._free.put(address, size)

    def release(self) -> None:
        """Free the segments that hold no block."""
        for size, address in list(self._free.by_size):
            if self._segments.get(address) == size:
                self._free.remove(address)
                self.mapped_bytes -= self._segments.pop(address)
