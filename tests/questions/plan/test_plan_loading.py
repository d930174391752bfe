"""Loaders are compared where workers could save the plan's run something, and not in vain."""

from dataclasses import replace

import pytest

from legroom.job import Settings
from legroom.questions.loading.records import CompareLoaders
from legroom.questions.rate.records import GrowTrunk, RunTrial

OWN = Settings(batch_size=32, learning_rate=0.02, num_epochs=20)


@pytest.mark.parametrize(
    ("waits", "num_epochs", "told"),
    [
        (0.01, 20, "% of a step, so workers were not compared"),
        (0.02, 1, "of the whole run, so workers were not compared"),
        (0.5, 20, None),
    ],
)
def test_workers_are_compared_where_they_could_save_the_run_something(planted, tmp_path, waits, num_epochs, told):
    machine = planted.plant(own=replace(OWN, num_epochs=num_epochs))
    machine.others[0].data_wait_share = waits
    answer = planted.ask(tmp_path, machine, target="same")
    asked = [request for request in machine.asked if isinstance(request, CompareLoaders)]
    assert bool(asked) == ("loading" in answer.spent) == (told is None)
    if told is not None:
        assert any(note.endswith(told) for note in answer.notes)


@pytest.mark.parametrize(("sample_seconds", "is_first"), [(0.02, True), (1e-6, False), (None, False)])
def test_loaders_are_compared_before_rates_are_sought_where_updates_wait_for_their_samples(
    planted, tmp_path, sample_seconds, is_first
):
    machine = planted.plant(own=OWN, sample_seconds=sample_seconds)
    machine.others[0].data_wait_share = 0.9
    answer = planted.ask(tmp_path, machine, target="same")
    kinds = [type(request) for request in machine.asked]
    assert (kinds.index(CompareLoaders) < kinds.index(GrowTrunk)) == is_first
    assert ("loading first" in answer.spent, "loading" in answer.spent) == (is_first, not is_first)
    trials = {request.settings["num_workers"] for request in machine.asked if isinstance(request, GrowTrunk)}
    assert trials == {machine.loaders.num_cores if is_first else 0}
    assert any(isinstance(each, RunTrial) and Settings(**each.settings) == OWN for each in machine.asked)


def test_loaders_compared_first_are_of_the_jobs_own_batch_and_not_compared_again(planted, tmp_path):
    machine = planted.plant(own=OWN, sample_seconds=0.02)
    planted.ask(tmp_path, machine, target="same")
    assert {request.batch_size for request in machine.asked if isinstance(request, CompareLoaders)} == {32}


def test_where_no_rate_was_found_loaders_are_compared_at_the_batch_that_stays(planted, tmp_path):
    slow = planted.plant(own=replace(OWN, num_workers=1), learner=replace(planted.LEARNER, s_min=1e7))
    answer = planted.ask(tmp_path, slow, target="same", budget=300.0)
    sizes = {request.batch_size for request in slow.asked if isinstance(request, CompareLoaders)}
    assert ([each for each in answer.recommendations if each.name == "num_steps"], sizes) == ([], {32})


@pytest.mark.parametrize("sample_seconds", [0.02, 1e-6])
def test_a_plan_that_goes_on_seeks_rates_with_the_workers_it_had_before(planted, tmp_path, sample_seconds):
    """Though what it found of loaders after that lies in the folder; without a rate there, it would seek on."""
    words = {"own": replace(OWN, num_workers=1), "learner": replace(planted.LEARNER, s_min=1e7)}
    planted.ask(tmp_path, planted.plant(sample_seconds=sample_seconds, **words), target="same", budget=300.0)
    machine = planted.plant(sample_seconds=sample_seconds, **words)
    planted.ask(tmp_path, machine, target="same", budget=300.0, resume=True)
    assert [request for request in machine.asked if isinstance(request, GrowTrunk | RunTrial)] == []
