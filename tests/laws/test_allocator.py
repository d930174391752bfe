"""The allocator's replay: sequences whose addresses and pages can be worked out by hand."""

import random
from itertools import pairwise

import pytest

from legroom.laws.allocator import LARGE_PAGE, MIB, SMALL_PAGE, Allocator, Pool


def large(*sizes: int) -> tuple[Pool, list[int]]:
    """A large pool with blocks of so many MiB side by side, and their addresses in MiB."""
    pool = Pool(LARGE_PAGE)
    return pool, [place(pool, size) for size in sizes]


def place(pool: Pool, size: int) -> int:
    address = pool.take(size * MIB)
    return (pool.grow(size * MIB) if address is None else address) // MIB


def give(pool: Pool, address: int, size: int) -> None:
    pool.give(address * MIB, size * MIB)


def test_a_pool_grows_by_whole_pages_at_its_end() -> None:
    pool, addresses = large(30, 5, 30)
    assert addresses == [0, 30, 35]
    assert pool.mapped_bytes == 80 * MIB  # 65 MiB in pages of 20


def test_a_freed_block_is_used_again() -> None:
    pool, _ = large(30, 30)
    give(pool, 0, 30)
    assert place(pool, 30) == 0
    assert pool.mapped_bytes == 60 * MIB


def test_what_is_left_of_a_block_stays_free() -> None:
    pool, _ = large(30, 30)
    give(pool, 0, 30)
    assert [place(pool, 10), place(pool, 20)] == [0, 10]
    assert pool.mapped_bytes == 60 * MIB


def test_free_neighbours_merge_on_both_sides() -> None:
    pool, _ = large(20, 20, 20, 20)
    for address in (0, 40, 20):
        give(pool, address, 20)
    assert place(pool, 60) == 0
    assert pool.mapped_bytes == 80 * MIB


def test_the_smallest_block_that_is_large_enough_is_taken_and_the_lowest_of_equals() -> None:
    pool, _ = large(40, 5, 25, 5, 25, 5)
    for address, size in ((0, 40), (45, 25), (75, 25)):
        give(pool, address, size)
    assert [place(pool, 22), place(pool, 22), place(pool, 22)] == [45, 75, 0]


def test_the_free_end_is_taken_last_even_where_it_fits_best() -> None:
    pool, _ = large(30, 5, 25)  # 60 MiB mapped
    give(pool, 0, 30)
    give(pool, 35, 25)
    assert place(pool, 25) == 0


def test_holes_too_small_force_growth() -> None:
    pool, _ = large(20, 20, 20, 20)
    give(pool, 0, 20)
    give(pool, 40, 20)
    assert place(pool, 30) == 80  # 40 MiB are free, in two pieces
    assert pool.mapped_bytes == 120 * MIB


def test_growth_begins_in_the_free_end() -> None:
    pool, _ = large(20, 30)  # 60 MiB mapped, 10 of them free
    assert place(pool, 40) == 50
    assert pool.mapped_bytes == 100 * MIB


def test_small_blocks_have_pages_of_their_own() -> None:
    allocator = Allocator()
    allocator.take(0, MIB)
    assert allocator.reserved_bytes == SMALL_PAGE
    allocator.take(1, MIB + 1)
    assert allocator.reserved_bytes == SMALL_PAGE + LARGE_PAGE
    allocator.take(2, 1)
    allocator.take(3, MIB - 512)
    assert allocator.reserved_bytes == SMALL_PAGE + LARGE_PAGE
    allocator.take(4, 1)
    assert allocator.reserved_bytes == 2 * SMALL_PAGE + LARGE_PAGE


def test_a_request_is_weighed_whole_though_the_free_end_lacks_only_a_part() -> None:
    allocator = Allocator()
    allocator.take(0, 100 * MIB)
    allocator.give(0)
    allocator.take(1, 110 * MIB)
    assert allocator.reserved_bytes == 120 * MIB
    assert allocator.needed_bytes == 210 * MIB


def test_requests_below_ten_mebibytes_are_weighed_by_a_page() -> None:
    allocator = Allocator()
    allocator.take(0, 2 * MIB)
    assert allocator.needed_bytes == 20 * MIB
    allocator = Allocator()
    allocator.take(0, 11 * MIB)
    assert (allocator.needed_bytes, allocator.reserved_bytes) == (12 * MIB, 20 * MIB)


@pytest.mark.parametrize("seed", range(10))
def test_blocks_never_overlap_and_all_comes_back_in_one_piece(seed: int) -> None:
    chance = random.Random(seed)
    pool = Pool(LARGE_PAGE)
    taken: dict[int, int] = {}
    for _ in range(300):
        if taken and chance.random() < 0.5:
            address = chance.choice(sorted(taken))
            give(pool, address, taken.pop(address))
        else:
            size = chance.randrange(1, 60)
            taken[place(pool, size)] = size
        ends = [(address, address + size) for address, size in sorted(taken.items())]
        assert all(left[1] <= right[0] for left, right in pairwise(ends))
        assert all(end * MIB <= pool.mapped_bytes for _, end in ends)
    for address, size in taken.items():
        give(pool, address, size)
    assert pool.take(pool.mapped_bytes) == 0
