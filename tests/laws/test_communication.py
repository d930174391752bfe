"""Laws of communication: planted links are recovered, and what no link can do is never forecast."""

import itertools
import math
import random

import pytest

from legroom.errors import UsageError
from legroom.laws.communication import (
    BUCKET_CAP_MB,
    FIRST_BUCKET_BYTES,
    MIB,
    backward_end,
    broadcast_seconds,
    buckets_of,
    bus_bandwidth,
    fit_link,
    proportional_batches,
    ring_seconds,
    stolen_share,
    strong_speedup,
    tree_seconds,
    weak_speedup,
    whole_shares,
)

SEEDS = range(20)


@pytest.mark.parametrize("seed", SEEDS)
def test_whole_shares_add_up_and_none_is_a_whole_sample_off(seed):
    chance = random.Random(seed)
    speeds, total = [chance.uniform(0.01, 2.0) for _ in range(chance.randint(2, 9))], chance.randint(1, 500)
    exact = proportional_batches(total, speeds)
    shares = whole_shares(exact)
    assert sum(shares) == total
    assert all(abs(share - each) < 1 for share, each in zip(shares, exact, strict=True))


def a_pass(seed):
    """A random backward pass: its seconds, when buckets are ready, and what their transfers take."""
    chance = random.Random(seed)
    backward = chance.uniform(0.01, 1.0)
    ready = sorted(chance.uniform(0.0, backward) for _ in range(chance.randint(1, 9)))
    return backward, ready, [chance.uniform(0.0, backward) for _ in ready]


@pytest.mark.parametrize("seed", SEEDS)
def test_latency_and_bandwidth_are_recovered_from_noisy_all_reduces(seed):
    chance = random.Random(seed)
    latency, bandwidth = 10 ** chance.uniform(-6, -3), 10 ** chance.uniform(8, 11)
    num_devices, sizes = chance.choice([2, 4, 8, 16]), [4**power for power in range(5, 15)]
    times = [ring_seconds(size, num_devices, latency, bandwidth) * chance.uniform(0.98, 1.02) for size in sizes]
    link = fit_link(num_devices, sizes, times)
    known = [ring_seconds(size, num_devices, link.latency, link.bandwidth) for size in sizes]
    assert known == pytest.approx(times, rel=0.05)
    if ring_seconds(sizes[-1], num_devices, 0.0, bandwidth) > 10 * 2 * num_devices * latency:
        assert link.bandwidth == pytest.approx(bandwidth, rel=0.05)


def test_one_size_tells_latency_and_bandwidth_not_apart():
    with pytest.raises(UsageError, match="two sizes"):
        fit_link(2, [1e6, 1e6], [0.1, 0.1])


@pytest.mark.parametrize("seed", SEEDS)
def test_without_theft_a_step_ends_with_the_pass_or_its_last_bucket(seed):
    backward, ready, transfers = a_pass(seed)
    end = 0.0
    for at, seconds in zip(ready, transfers, strict=True):
        end = max(end, at) + seconds
    assert backward_end(backward, ready, transfers, 0.0) == pytest.approx(max(backward, end))


@pytest.mark.parametrize("seed", SEEDS)
def test_where_transfers_steal_all_of_the_pace_nothing_overlaps(seed):
    backward, ready, transfers = a_pass(seed)
    assert backward_end(backward, ready, transfers, 1.0) == pytest.approx(backward + sum(transfers))


@pytest.mark.parametrize("seed", SEEDS)
def test_more_theft_never_ends_a_pass_sooner(seed):
    backward, ready, transfers = a_pass(seed)
    ends = [backward_end(backward, ready, transfers, share / 10) for share in range(11)]
    assert all(later >= end * (1 - 1e-12) for end, later in itertools.pairwise(ends))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_larger_ring_never_exposes_less_of_the_same_bytes(seed):
    backward, ready, _ = a_pass(seed)
    chance = random.Random(seed)
    sizes = [chance.uniform(1e3, 1e8) for _ in ready]
    ends = [
        backward_end(backward, ready, [ring_seconds(size, num, 1e-5, 1e9) for size in sizes], 0.0)
        for num in (1, 2, 4, 8, 64, 4096)
    ]
    assert all(later >= end * (1 - 1e-12) for end, later in itertools.pairwise(ends))
    assert ends[0] == pytest.approx(backward)


def test_a_ring_moves_fewest_bytes_and_a_tree_sends_fewest_messages():
    assert ring_seconds(1e8, 64, 0.0, 1e9) < tree_seconds(1e8, 64, 0.0, 1e9)
    assert ring_seconds(0, 64, 1e-5, 1e9) > tree_seconds(0, 64, 1e-5, 1e9)
    assert broadcast_seconds(1e6, 1, 1e-5, 1e9) == ring_seconds(1e6, 1, 1e-5, 1e9) == 0


@pytest.mark.parametrize("num_devices", [2, 3, 16])
def test_the_bus_is_as_fast_as_the_link_where_messages_cost_nothing(num_devices):
    assert bus_bandwidth(1e6, num_devices, ring_seconds(1e6, num_devices, 0.0, 7e8)) == pytest.approx(7e8)


@pytest.mark.parametrize("seed", SEEDS)
def test_buckets_hold_every_byte_once_and_close_when_full(seed):
    chance = random.Random(seed)
    sizes = [chance.randint(1, 8 * MIB) for _ in range(40)]
    ready = [0.01 * place for place in range(40)]
    found = buckets_of(sizes, ready, 4.0)
    assert sum(bucket.num_bytes for bucket in found) == sum(sizes)
    assert [bucket.ready_seconds for bucket in found] == sorted({bucket.ready_seconds for bucket in found})
    assert all(bucket.num_bytes >= 4 * MIB for bucket in found[:-1])
    own = buckets_of(sizes, ready)
    assert FIRST_BUCKET_BYTES <= own[0].num_bytes < FIRST_BUCKET_BYTES + 8 * MIB
    assert all(bucket.num_bytes >= BUCKET_CAP_MB * MIB for bucket in own[1:-1])


def test_strong_and_weak_are_told_apart_by_what_stays():
    assert strong_speedup(1.0, 0.25) == 4.0, "the same global batch, four times sooner"
    assert weak_speedup(1.0, 1.0, 4) == 4.0, "four times the samples in as long"


def test_unequal_devices_end_together_where_the_batch_is_split_by_speed():
    speeds = [1.0, 1.0, 0.6]
    batches = proportional_batches(128, speeds)
    assert math.isclose(sum(batches), 128)
    assert len({round(batch / speed, 9) for batch, speed in zip(batches, speeds, strict=True)}) == 1


def test_transfers_steal_only_from_cores_that_are_not_free():
    assert stolen_share(1.0, 2, 1, 2) == 1.0
    assert stolen_share(0.4, 2, 1, 2) == pytest.approx(0.6), "threads that share a core disturb each other"
    assert stolen_share(1.0, 2, 1, 8) == 0.0
