"""Stretches of free addresses by size and by place; those that touch are one."""

from bisect import bisect_left, insort


class FreeBlocks:
    """Free blocks of one pool.

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


def round_up(num_bytes: int, unit: int) -> int:
    """The smallest multiple of the unit that is not less.

    >>> round_up(1, 512), round_up(512, 512)
    (512, 512)
    """
    return -(-num_bytes // unit) * unit
