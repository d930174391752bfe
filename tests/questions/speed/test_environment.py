"""Variables of the environment in turn with the user's own, at one batch size."""

import pytest

from legroom import api
from legroom.environments import REUSE_MALLOC
from legroom.questions.speed.ask import environment
from legroom.questions.speed.records import TimeSteps
from legroom.testing import FakeMachine, FakeSteps, plant_gpu, plant_host
from legroom.testing.machine import START_SECONDS


def ask(out, machine, *, host=None, **words):
    run = api.Run(out=out, engine=machine, host=host or plant_host(), clock=machine.clock)
    return environment("digits", batch_size=64, run=run, **{"device": "cpu", "budget": 60.0, **words})


def machine_of(**planted):
    return FakeMachine(steps=FakeSteps(seconds=lambda size: 0.01 + 0.0001 * size, **planted))


def test_memory_that_is_kept_is_found_where_fetching_it_takes_a_share(tmp_path):
    machine = machine_of(fetching_seconds=lambda size: 0.005 + 0.00005 * size)
    answer = ask(tmp_path, machine)
    assert answer.variables == REUSE_MALLOC
    assert answer.speedup == pytest.approx(1.5)
    assert {request.batch_sizes for request in machine.asked if isinstance(request, TimeSteps)} == {(64,)}


def test_of_several_settings_that_pay_the_best_is_taken(tmp_path):
    factors = {"OMP_WAIT_POLICY": 0.8, "OMP_NUM_THREADS": 0.6}
    assert ask(tmp_path, machine_of(setting_factors=factors)).variables == {"OMP_NUM_THREADS": "1"}


def test_what_two_processes_differ_by_is_no_gain(tmp_path):
    found = [ask(tmp_path / f"{seed}", machine_of(process_noise=0.05, seed=seed)).variables for seed in range(20)]
    assert found.count({}) >= 18


def test_no_process_is_started_that_would_end_beyond_the_budget(tmp_path):
    machine = machine_of(setting_factors={"OMP_WAIT_POLICY": 0.5})
    answer = ask(tmp_path, machine, budget=10.0)
    assert machine.clock() <= START_SECONDS + 10.0
    assert answer.variables == {}, "it was not confirmed"


def test_on_a_gpu_nothing_is_timed(tmp_path):
    machine = machine_of()
    answer = ask(tmp_path, machine, device="cuda", host=plant_host(gpus=(plant_gpu(),)))
    assert answer.variables == {}
    assert not any(isinstance(request, TimeSteps) for request in machine.asked)
