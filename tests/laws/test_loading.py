"""The laws of loading: throughputs, memory, shares and ranks."""

import random
import statistics

import pytest

from legroom.laws.loading import (
    LoaderLaw,
    fewest_workers,
    fit_loader_law,
    most_workers_in_memory,
    time_shares,
)
from legroom.laws.ranking import join_rounds, pick_cheapest


@pytest.mark.parametrize("seed", range(20))
def test_fit_recovers_a_planted_law(seed):
    rng = random.Random(seed)
    truth = LoaderLaw(rate=rng.uniform(10, 1e4), contention=rng.uniform(0, 0.3), coherence=rng.uniform(0, 0.02))
    found = fit_loader_law({num: truth.samples_per_second(num) for num in (1, 4, 16)})
    assert found.contention == pytest.approx(truth.contention, abs=1e-6)
    assert found.coherence == pytest.approx(truth.coherence, abs=1e-6)


@pytest.mark.parametrize("seed", range(20))
def test_a_fit_to_noise_never_has_negative_costs(seed):
    rng = random.Random(seed)
    found = fit_loader_law({num: num * 100 * rng.uniform(0.7, 1.3) for num in (1, 2, 4, 8)})
    assert found.contention >= 0
    assert found.coherence >= 0


@pytest.mark.parametrize("seed", range(20))
def test_the_fewest_workers_are_enough_and_one_fewer_is_not(seed):
    rng = random.Random(seed)
    law = LoaderLaw(rate=100.0, contention=rng.uniform(0, 0.2), ceiling=rng.uniform(300, 3000))
    needed = rng.uniform(50, 2000)
    found = fewest_workers(law, needed)
    target = 0.98 * min(needed, max(law.samples_per_second(num) for num in range(1, 257)))
    assert law.samples_per_second(found) >= target
    assert found == 1 or law.samples_per_second(found - 1) < target


def test_a_retrograde_loader_is_not_given_workers_that_slow_it():
    law = LoaderLaw(rate=100.0, coherence=0.1)
    assert fewest_workers(law, needed=1e9) <= 4


@pytest.mark.parametrize("seed", range(20))
def test_more_memory_never_allows_fewer_workers(seed):
    rng = random.Random(seed)
    sizes = {"worker_bytes": rng.uniform(1e6, 1e9), "batch_bytes": rng.uniform(1e3, 1e8), "prefetch_factor": 2}
    counts = [most_workers_in_memory(available, 2**30, **sizes) for available in (1e9, 4e9, 64e9)]
    assert counts == sorted(counts)


def test_memory_for_thousands_of_workers_is_not_told_as_so_many():
    assert most_workers_in_memory(64e9, None, worker_bytes=2**23, batch_bytes=2**16, prefetch_factor=2) == 256


def test_a_small_shm_limits_workers_where_memory_does_not():
    assert most_workers_in_memory(2**40, 64 * 2**20, worker_bytes=1, batch_bytes=40 * 2**20, prefetch_factor=2) == 0


def test_shares_sum_to_one_and_name_the_planted_bottleneck():
    shares = time_shares(compute=0.01, warm=0.03, cold=0.1)
    assert sum(shares.values()) == pytest.approx(1, abs=1e-3)
    assert max(shares, key=shares.get) == "storage"
    assert time_shares(compute=0.02, warm=0.0199, cold=0.0199) == {"compute": 1, "preparation": 0, "storage": 0}


TRUTH = {"a": 100.0, "b": 110.0, "c": 140.0}


def rounds_at(names, paces):
    return [{name: pace * TRUTH[name] for name in names} for pace in paces]


def test_joined_rounds_forget_how_fast_the_machine_was_at_the_time():
    joined = join_rounds([*rounds_at("ab", [1.0, 1.3, 0.7]), *rounds_at("bc", [0.5, 0.8])])
    assert {name: each / joined["a"] for name, each in joined.items()} == pytest.approx({"a": 1.0, "b": 1.1, "c": 1.4})


def test_joined_rounds_are_on_the_scale_of_the_middle_round():
    assert join_rounds(rounds_at("abc", [1.0, 0.2, 1.0])) == pytest.approx(TRUTH)


def test_one_turn_that_met_something_else_hardly_counts():
    rounds = rounds_at("abc", [1.0, 0.9, 1.1, 0.8, 1.2])
    rounds[2]["a"] /= 4
    joined = join_rounds(rounds)
    assert joined["a"] / joined["c"] == pytest.approx(100 / 140, rel=0.01)


def test_paces_taken_off_rank_better_than_medians_of_each_setting():
    rng = random.Random(1)
    right = {"joined": 0, "medians": 0}
    for _ in range(200):
        paces = [rng.uniform(0.6, 1.4) for _ in range(4)]
        rounds = [{name: pace * TRUTH[name] * rng.uniform(0.87, 1.13) for name in "ab"} for pace in paces]
        joined = join_rounds(rounds)
        right["joined"] += joined["b"] > joined["a"]
        right["medians"] += statistics.median(r["b"] for r in rounds) > statistics.median(r["a"] for r in rounds)
    assert right["joined"] > right["medians"]


def test_the_cheapest_within_two_percent_wins():
    assert pick_cheapest({1: 97.0, 2: 98.5, 8: 100.0}, cost=lambda num: num) == 2
