"""What several questions refuse alike, before anything is measured."""

import math

import pytest

from legroom import api
from legroom.errors import UsageError
from legroom.requests import Describe
from legroom.session import advise_again
from legroom.testing import FakeMachine, plant_host


def ask(question, machine, folder, **words):
    return question("digits", device="cpu", run=api.Run(out=folder, engine=machine, host=plant_host()), **words)


@pytest.mark.parametrize("question", [api.loading, api.rate, api.devices])
def test_a_batch_beyond_what_the_jobs_own_loader_gives_is_refused(tmp_path, question):
    machine = FakeMachine(num_samples=500, largest_loader_batch=48)
    with pytest.raises(UsageError, match=r"64 is more than the 48 samples there are\. Name at most that"):
        ask(question, machine, tmp_path, batch_size=64)
    assert {type(request) for request in machine.asked} <= {Describe}


PRECISE = [api.memory, api.loading, api.rate, api.devices, api.speed, api.sweep, api.variants, api.plan]


@pytest.mark.parametrize("question", PRECISE)
def test_a_precision_that_there_is_not_is_refused(tmp_path, question):
    machine = FakeMachine()
    with pytest.raises(UsageError, match=r"There is no precision 'fp8'\. Known: fp32, bf16, fp16"):
        ask(question, machine, tmp_path, precision="fp8")
    assert machine.asked == []


@pytest.mark.parametrize("question", [api.rate, api.size, api.variants, api.plan])
@pytest.mark.parametrize("budget", [1.0, math.inf, math.nan])
def test_a_budget_that_nothing_can_be_measured_in_is_refused(tmp_path, question, budget):
    machine = FakeMachine()
    with pytest.raises(UsageError, match=rf"--budget is {budget:g} s; it must be at least \d+ s"):
        ask(question, machine, tmp_path, budget=budget)
    assert machine.asked == []


@pytest.mark.parametrize(
    ("question", "words", "told"),
    [
        (api.memory, {"effective_batch": 0}, "--effective-batch is 0"),
        (api.loading, {"batch_size": 0}, "--batch-size is 0"),
        (api.rate, {"seeds": 0}, "--seeds is 0"),
        (api.size, {"seeds": -1}, "--seeds is -1"),
        (api.devices, {"batch_size": 0}, "--batch-size is 0"),
        (api.variants, {"num_steps": 0}, "--steps is 0"),
        (api.plan, {"batch_size": 0}, "--batch-size is 0"),
        (api.sweep, {"patience": 0}, "--patience is 0"),
    ],
)
def test_a_count_below_one_is_refused(tmp_path, question, words, told):
    machine = FakeMachine()
    with pytest.raises(UsageError, match=f"{told}; it must be at least 1"):
        ask(question, machine, tmp_path, **words)
    assert machine.asked == []


@pytest.mark.parametrize(("question", "words"), [(api.train, {"num_workers": 65}), (api.sweep, {"workers": (65,)})])
def test_more_workers_than_the_machine_may_run_are_refused_where_they_would_run(tmp_path, question, words):
    machine = FakeMachine()
    with pytest.raises(UsageError, match="num_workers is 65; it must be a whole number from 0 to 64 on this machine"):
        ask(question, machine, tmp_path, **words)
    assert machine.asked == []


def test_what_a_larger_machine_found_is_read_on_this_one(tmp_path):
    machine = FakeMachine(num_samples=1000)
    run = api.Run(out=tmp_path, engine=machine, host=plant_host(num_cores=1024))
    words = {"batch_sizes": (32,), "rates": (0.1,), "workers": (4096,)}
    answer = api.sweep("digits", device="cpu", run=run, **words)
    assert advise_again(tmp_path, "sweep") == answer
