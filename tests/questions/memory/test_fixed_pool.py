"""The allocator's replay with torch's default, fixed segments: each of its rules, planted."""

from legroom.questions.memory.allocator.pools import LARGE_PAGE, MIB, SMALL_PAGE, FixedPool
from legroom.questions.memory.allocator.replay import Allocator


def place(pool: FixedPool, size: int) -> tuple[int, int]:
    return pool.take(size) or pool.grow(size)


def test_large_requests_get_segments_of_their_own_size_and_lesser_ones_twenty_mebibytes() -> None:
    pool = FixedPool(LARGE_PAGE)
    place(pool, 10 * MIB + 512)
    assert pool.mapped_bytes == 12 * MIB
    place(pool, 5 * MIB)
    place(pool, 14 * MIB)  # what is left of the 20
    assert pool.mapped_bytes == 32 * MIB


def test_up_to_a_mebibyte_left_of_a_large_block_goes_with_it() -> None:
    pool = FixedPool(LARGE_PAGE)
    assert place(pool, 29 * MIB)[1] == 30 * MIB
    assert place(pool, 29 * MIB - 512)[1] == 29 * MIB - 512


def test_any_rest_of_a_small_block_stays_free() -> None:
    pool = FixedPool(SMALL_PAGE)
    assert [place(pool, MIB), place(pool, MIB - 512), place(pool, 512)] == [
        (0, MIB),
        (MIB, MIB - 512),
        (2 * MIB - 512, 512),
    ]
    assert pool.mapped_bytes == SMALL_PAGE


def test_blocks_merge_within_a_segment_and_never_across_two() -> None:
    pool = FixedPool(LARGE_PAGE)
    place(pool, 5 * MIB)
    place(pool, 12 * MIB)
    place(pool, 3 * MIB)  # the first segment is full
    second, _ = place(pool, 20 * MIB)
    for address, size in ((0, 5), (5, 12), (17, 3)):
        pool.give(address * MIB, size * MIB)
    assert place(pool, 20 * MIB) == (0, 20 * MIB)
    pool.give(0, 20 * MIB)
    pool.give(second, 20 * MIB)
    place(pool, 40 * MIB)
    assert pool.mapped_bytes == 80 * MIB


def test_only_segments_without_any_block_are_given_back() -> None:
    pool = FixedPool(LARGE_PAGE)
    first, _ = place(pool, 30 * MIB)
    second, _ = place(pool, 40 * MIB)
    pool.give(first, 30 * MIB)
    pool.give(second, 40 * MIB)
    place(pool, 10 * MIB)  # in the smaller one
    place(pool, 20 * MIB)
    pool.give(first, 10 * MIB)
    pool.release()
    assert pool.mapped_bytes == 30 * MIB


def test_under_a_cap_a_split_segment_is_lost_where_growing_ones_give_its_pages_back() -> None:
    granted = {}
    for kind in ("default", "expandable"):
        allocator = Allocator(kind, cap_bytes=100 * MIB)
        allocator.take(0, 60 * MIB)
        allocator.give(0)
        allocator.take(1, 10 * MIB)
        granted[kind] = allocator.take(2, 56 * MIB)
    assert granted == {"default": False, "expandable": True}
