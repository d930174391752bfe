"""The allocator's replay with segments that grow: sequences whose addresses and pages can be worked out by hand."""

import random
from itertools import pairwise

import pytest

from legroom.questions.memory.allocator.pools import LARGE_PAGE, MIB, SMALL_PAGE, GrowingPool
from legroom.questions.memory.allocator.replay import Allocator


def large(*sizes: int) -> tuple[GrowingPool, list[int]]:
    """A large pool with blocks of so many MiB side by side, and their addresses in MiB."""
    pool = GrowingPool(LARGE_PAGE)
    return pool, [place(pool, size) for size in sizes]


def place(pool: GrowingPool, size: int) -> int:
    address, taken = pool.take(size * MIB) or pool.grow(size * MIB)
    assert taken == size * MIB
    return address // MIB


def give(pool: GrowingPool, address: int, size: int) -> None:
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


def test_only_whole_pages_without_a_block_are_given_back() -> None:
    pool, _ = large(30, 30)
    give(pool, 0, 30)
    pool.release()
    assert pool.mapped_bytes == 40 * MIB
    assert place(pool, 10) == 20  # what is left of the page under the other block


def test_growth_after_a_release_takes_the_lowest_hole_that_is_wide_enough() -> None:
    pool, _ = large(60, 20)
    give(pool, 0, 60)
    pool.release()
    assert [place(pool, 70), place(pool, 50)] == [80, 0]
    assert pool.mapped_bytes == (20 + 80 + 60) * MIB


def test_growth_joins_holes_with_the_free_blocks_between_them() -> None:
    pool, _ = large(40, 10, 30, 20)
    give(pool, 0, 40)
    give(pool, 50, 30)
    pool.release()  # pages at 0, 20 and 60 go; 10 MiB at 50 stay free
    give(pool, 40, 10)
    assert place(pool, 80) == 0
    assert pool.mapped_bytes == 100 * MIB


def test_a_block_before_a_hole_counts_as_large_as_it_could_grow() -> None:
    pool, _ = large(30, 50, 12, 13)
    give(pool, 30, 50)
    pool.release()  # 10 MiB stay free at 30, before a hole of 40
    give(pool, 80, 12)
    assert [place(pool, 8), place(pool, 8)] == [80, 30]


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


def test_what_the_cap_refuses_is_granted_once_free_pages_are_given_back() -> None:
    allocator = Allocator(cap_bytes=100 * MIB)
    allocator.take(0, 60 * MIB)
    allocator.take(1, MIB)
    allocator.give(0)
    allocator.give(1)
    assert allocator.take(2, 100 * MIB)  # the small pool's page must go as well
    assert (allocator.num_retries, allocator.reserved_bytes) == (1, 100 * MIB)


def test_a_second_refusal_is_the_end() -> None:
    allocator = Allocator(cap_bytes=100 * MIB)
    assert allocator.take(0, 60 * MIB)
    assert not allocator.take(1, 50 * MIB)
    assert allocator.num_retries == 1


@pytest.mark.parametrize("seed", range(10))
def test_blocks_never_overlap_and_all_comes_back_in_one_piece(seed: int) -> None:
    chance = random.Random(seed)
    pool = GrowingPool(LARGE_PAGE)
    taken: dict[int, int] = {}
    for _ in range(300):
        if taken and chance.random() < 0.5:
            address = chance.choice(sorted(taken))
            give(pool, address, taken.pop(address))
        elif chance.random() < 0.1:
            pool.release()
        else:
            size = chance.randrange(1, 60)
            taken[place(pool, size)] = size
        ends = [(address, address + size) for address, size in sorted(taken.items())]
        assert all(left[1] <= right[0] for left, right in pairwise(ends))
        assert sum(taken.values()) * MIB <= pool.mapped_bytes
    for address, size in taken.items():
        give(pool, address, size)
    pool.release()
    assert pool.mapped_bytes == 0
