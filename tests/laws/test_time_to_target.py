"""The formula: what more memory, workers, devices and samples never do, and that the page can compute with it."""

import ast
import inspect
import math
import random

import pytest

from legroom.laws import time_to_target as laws
from legroom.laws.steps import StepsLaw, best_batch

SIZES = [8, 16, 32, 64, 128, 256, 512, 1024]
TRANSLATED = (
    ast.Return,
    ast.Assign,
    ast.Expr,
    ast.For,
    ast.Name,
    ast.Constant,
    ast.BinOp,
    ast.UnaryOp,
    ast.Compare,
    ast.IfExp,
    ast.Subscript,
    ast.Call,
    ast.Attribute,
    ast.operator,
    ast.unaryop,
    ast.cmpop,
    ast.expr_context,
)
"""What a translator has to know."""
OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.USub, ast.Gt, ast.Lt, ast.GtE, ast.LtE)
CALLED = {"max", "min", "len", "range", "ceil", "sqrt", "exp", "log"}


def functions():
    return [found for _, found in inspect.getmembers(laws, inspect.isfunction) if found.__module__ == laws.__name__]


def planted(seed):
    """Random numbers for all factors of one job on one machine."""
    rng = random.Random(seed)
    floor, per_sample = 10 ** rng.uniform(-4, -1), 10 ** rng.uniform(-6, -2)
    return {
        "seconds": [floor + per_sample * size for size in SIZES],
        "least": 10 ** rng.uniform(1, 4),
        "critical": 10 ** rng.uniform(0.5, 3.5),
        "inline": 10 ** rng.uniform(-6, -2),
        "contention": rng.uniform(0, 0.3),
        "fixed": 1e9,
        "each": 10 ** rng.uniform(5, 8),
    }


def run_seconds(truth, size, *, num_passes=1, workers=2, devices=1, exposed=0.0):
    compute = laws.compute_seconds(size, SIZES, truth["seconds"])
    load = laws.load_seconds(size, workers, truth["inline"], 1.1 * truth["inline"], truth["contention"], 0.0, 0.0)
    step = laws.step_seconds(num_passes, laws.pass_seconds(compute, load, workers), 0.0, exposed)
    steps = laws.steps_to_target(laws.update_size(size, num_passes, devices), truth["least"], truth["critical"])
    return laws.seconds_to_target(steps, step, 0, 0.0)


@pytest.mark.parametrize("seed", range(20))
def test_a_larger_card_never_makes_it_slower(seed):
    truth, found = planted(seed), []
    times = [run_seconds(truth, size) for size in SIZES]
    for card in (1.5e9, 2e9, 4e9, 16e9, 80e9):
        largest = laws.largest_batch(card, truth["fixed"], truth["each"])
        if largest >= SIZES[0]:
            found.append(times[laws.soonest(SIZES, times, largest)])
    assert found == sorted(found, reverse=True)


@pytest.mark.parametrize("seed", range(20))
def test_the_largest_batch_fits_and_the_next_does_not(seed):
    truth = planted(seed)
    largest = laws.largest_batch(16e9, truth["fixed"], truth["each"])
    assert laws.memory_bytes(largest, truth["fixed"], truth["each"]) <= 16e9
    assert laws.memory_bytes(largest + 1, truth["fixed"], truth["each"]) > 16e9


@pytest.mark.parametrize("seed", range(20))
def test_devices_that_need_not_talk_never_slow_a_run_and_never_make_it_cheaper(seed):
    truth = planted(seed)
    times = [run_seconds(truth, 64, devices=num) for num in (1, 2, 8)]
    costs = [laws.money(seconds, num, 2.5) for num, seconds in zip((1, 2, 8), times, strict=True)]
    assert times == sorted(times, reverse=True)
    assert costs == sorted(costs)


@pytest.mark.parametrize("seed", range(20))
def test_passes_joined_into_an_update_never_reach_the_target_sooner_than_as_many_devices(seed):
    truth = planted(seed)
    assert run_seconds(truth, 64, num_passes=4) >= run_seconds(truth, 64, devices=4)


@pytest.mark.parametrize("seed", range(20))
def test_loading_ahead_is_never_slower_than_the_device_and_the_loader_together(seed):
    truth = planted(seed)
    compute, load = truth["seconds"][3], 64 * truth["inline"]
    assert max(compute, load) == laws.pass_seconds(compute, load, 1) <= laws.pass_seconds(compute, load, 0)


def test_more_workers_load_faster_until_the_cores_are_full():
    times = [laws.load_seconds(64, num, 0.001, 0.001, 0.0, 0.0, 0.0003) for num in (1, 2, 3, 4, 16)]
    assert times == sorted(times, reverse=True)
    assert times[-1] == times[-2] == 64 * 0.0003


@pytest.mark.parametrize("seed", range(20))
def test_it_says_the_same_as_the_law_of_steps(seed):
    truth = planted(seed)
    law = StepsLaw(least_steps=truth["least"], critical_batch_size=truth["critical"])
    times = [law.steps(size) * laws.compute_seconds(size, SIZES, truth["seconds"]) for size in SIZES]
    expected = best_batch(law, lambda size: laws.compute_seconds(size, SIZES, truth["seconds"]), SIZES)
    assert SIZES[laws.soonest(SIZES, times, math.inf)] == expected
    steps = laws.steps_to_target(64, truth["least"], truth["critical"])
    assert laws.least_steps_from(steps, 64, truth["critical"]) == pytest.approx(truth["least"])


def test_a_pass_takes_what_was_timed_and_more_for_more_samples():
    timed = [0.01, 0.01, 0.011, 0.014, 0.02, 0.035, 0.07, 0.14]
    assert [laws.compute_seconds(size, SIZES, timed) for size in SIZES] == pytest.approx(timed)
    between = [laws.compute_seconds(size, SIZES, timed) for size in range(1, 3000, 7)]
    assert between == sorted(between)
    assert laws.compute_seconds(5, [32], [0.1]) == 0.1


def test_a_product_is_as_uncertain_as_the_worse_of_its_factors_and_less_than_both_at_once():
    for first, second in ((1.0, 1.0), (1.05, 1.5), (2.0, 2.0)):
        assert max(first, second) <= laws.joined_spread(first, second) <= first * second + 1e-12


@pytest.mark.parametrize("law", functions(), ids=lambda law: law.__name__)
def test_the_page_can_translate_every_law(law):
    tree = ast.parse(inspect.getsource(law)).body[0]
    assert not tree.args.kwonlyargs
    assert not tree.args.defaults
    names = {found.__name__ for found in functions()}
    for node in (part for line in tree.body for part in ast.walk(line)):
        assert isinstance(node, TRANSLATED), ast.dump(node)
        if isinstance(node, ast.operator | ast.unaryop | ast.cmpop):
            assert isinstance(node, OPERATORS), ast.dump(node)
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
            assert called in CALLED | names, called
