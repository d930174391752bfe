"""How benchmarks/rate.py reads rows: a low perplexity is good, and what is not there counts as late."""

import importlib.util
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    found = importlib.util.spec_from_file_location("rate_benchmark", BENCHMARKS / "rate.py")
    module = importlib.util.module_from_spec(found)
    before = set(sys.modules)
    found.loader.exec_module(module)
    yield module
    for name in {"plan", "rate_peers"} - before:
        sys.modules.pop(name, None)


def bench(script, goal, target):
    made = object.__new__(script.Bench)
    made.goal, made.target = goal, target
    return made


def test_updates_to_a_target_are_read_by_the_jobs_own_goal(script):
    falling = {"values": [(10, 4.0), (20, 2.5), (40, 1.5), (80, None), (160, 1.0)]}
    rising = {"values": [(step, None if value is None else -value) for step, value in falling["values"]]}
    assert bench(script, "min", 2.0).updates(falling) == bench(script, "max", -2.0).updates(rising) == 40
    assert bench(script, "min", 2.0).between_looks(falling) == pytest.approx(20 * 2**0.5)
    assert bench(script, "max", -2.0).between_looks(rising) == pytest.approx(20 * 2**0.5)
    assert bench(script, "min", 0.5).updates(falling) is None
    assert bench(script, "min", 4.0).between_looks(falling) == 10


def test_a_carried_rate_that_is_not_there_in_time_counts_as_four_times_the_updates(script):
    assert script.regret([None, 900.0], 100.0) == 2.0
    assert script.regret([100.0, 50.0], 100.0) == 0.0
    assert script.middle([None, 100, 300], 1000) == (300, 1)


def test_batch_sizes_are_six_doubles_that_an_epoch_has(script):
    assert script.batch_sizes(128, 3968) == [64, 128, 256, 512, 1024, 2048]
    assert script.batch_sizes(512, 1700) == [32, 64, 128, 256, 512, 1024]
