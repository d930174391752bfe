"""The memory law: planted lines are found again, and predictions behave as memory does."""

import random

import pytest

from legroom.laws.memory import Line, MemoryLaw, clear_points, fit_line, fit_memory, growth_of, split_batch


def planted(rng: random.Random) -> MemoryLaw:
    names = ("backward", "forward", "update")
    return MemoryLaw(tuple(Line(rng.uniform(1e8, 1e9), rng.uniform(0, 1e7), name) for name in names))


@pytest.mark.parametrize("seed", range(20))
def test_fit_recovers_planted_lines(seed):
    rng = random.Random(seed)
    law = planted(rng)
    sizes = sorted(rng.sample(range(2, 500), 4))
    found = fit_memory([(size, {line.phase: line.at(size) for line in law.lines}) for size in sizes])
    for seen, line in zip(found.lines, law.lines, strict=True):
        assert seen.phase == line.phase
        assert seen.bytes_per_sample == pytest.approx(line.bytes_per_sample, rel=1e-6, abs=1e-3)
        assert seen.fixed_bytes == pytest.approx(line.fixed_bytes, rel=1e-6)


@pytest.mark.parametrize("seed", range(20))
def test_predicted_memory_never_falls_as_the_batch_grows(seed):
    law = planted(random.Random(seed))
    values = [law.at(size) for size in range(1, 2000, 37)]
    assert values == sorted(values)


@pytest.mark.parametrize("seed", range(20))
def test_the_largest_batch_fits_and_the_next_does_not(seed):
    rng = random.Random(seed)
    law = planted(rng)
    budget = law.at(rng.randrange(10, 1000)) * rng.uniform(1.0, 1.01)
    largest = law.largest_batch(budget)
    assert law.at(largest) <= budget < law.at(largest + 1)


def test_a_budget_below_the_fixed_bytes_holds_nothing():
    assert MemoryLaw((Line(1000, 10, "backward"),)).largest_batch(999) == 0


def test_a_peak_that_only_wanders_has_no_slope():
    assert fit_line([(2, 1000.0), (10, 990.0), (100, 985.0)]) == Line(1000.0, 0.0)


def test_points_in_the_noise_are_left_out_of_the_line():
    mebibyte = 2**20
    points = [
        (2, 100 * mebibyte),
        (16, 103 * mebibyte),
        (128, 140 * mebibyte),
        (512, 260 * mebibyte),
    ]
    assert [size for size, _ in clear_points(points)] == [128, 512]


@pytest.mark.parametrize("seed", range(50))
def test_micro_batches_fit_and_make_the_batch(seed):
    rng = random.Random(seed)
    wanted, largest = rng.randrange(1, 5000), rng.randrange(1, 700)
    micro, steps = split_batch(wanted, largest)
    assert micro <= largest
    assert micro * (steps - 1) < wanted <= micro * steps


@pytest.mark.parametrize("seed", range(50))
def test_a_planted_leak_is_told_and_a_heap_that_fills_up_or_noise_is_not(seed):
    rng = random.Random(seed)
    num_steps, leak, noise = rng.choice([5, 10, 20]), 2**20 * rng.uniform(5, 40), 2**20 * rng.uniform(0, 2)
    base = [2**20 * 400 + rng.uniform(0, noise) for _ in range(num_steps)]
    filling = [2**20 * 20 * (1 - 0.5**step) for step in range(num_steps)]
    assert growth_of(base) == 0
    assert growth_of([value + filled for value, filled in zip(base, filling, strict=True)]) == 0
    leaking = [value + leak * step for step, value in enumerate(base)]
    assert growth_of(leaking) == pytest.approx(leak, abs=noise)
