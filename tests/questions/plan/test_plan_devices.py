"""How many devices a plan takes, against machines on which what they take is known."""

from dataclasses import replace
from pathlib import Path

import pytest

from legroom import api
from legroom.errors import JobCrashed, UsageError
from legroom.job import Settings
from legroom.laws import what_if
from legroom.logbook import read_records
from legroom.plan_file import read_plan
from legroom.questions.devices.records import TimeBackward, TimeRanks
from legroom.questions.plan.choice import Candidate, cheapest, cost_of
from legroom.questions.plan.view import compared_rows, summary
from legroom.questions.plan.what_if import what_if_of
from legroom.questions.rate.records import GrowTrunk
from legroom.session import advise_again
from legroom.testing import plant_gpu, plant_host
from legroom.training.records import Train


def reason(answer, name="num_devices"):
    return next(item.because for item in answer.recommendations if item.name == name)


@pytest.fixture(scope="module")
def goals(planted, tmp_path_factory):
    """The plans of both goals on four GPUs, with their folders."""
    found = {}
    for goal in ("fastest", "cheapest"):
        folder = tmp_path_factory.mktemp(goal)
        found[goal] = planted.ask(folder, planted.plant(), num_gpus=4, devices="all", goal=goal, price=3.6), folder
    return found


def test_fastest_takes_several_devices_and_cheapest_one_and_both_say_why(goals):
    fastest, cheapest = goals["fastest"][0], goals["cheapest"][0]
    assert fastest.num_devices > 1 == cheapest.num_devices
    assert fastest.predicted_seconds < cheapest.predicted_seconds
    assert fastest.predicted_cost > cheapest.predicted_cost
    assert f"on each of {fastest.num_devices} devices" in summary(fastest)
    assert reason(fastest).startswith(f"{fastest.num_devices} devices take ")
    assert reason(cheapest).startswith("1 device takes")
    assert "(tried out)" in reason(fastest)
    for answer in (fastest, cheapest):
        assert all(f"{num} devices take" in reason(answer) for num in (2, 4))
        assert "in all, for 0.0" in reason(answer)
        assert ["devices", "1", str(answer.num_devices), reason(answer)] in compared_rows(answer)


def test_the_forecast_on_several_devices_holds_the_planted_seconds(goals, planted):
    answer, ring = goals["fastest"][0], planted.plant_ring()
    num, batch = answer.num_devices, answer.batch_size
    step = ring.compute(batch) + ring.exposed(num, batch)
    low, high = answer.predicted_range
    # A run that cools down takes a tenth more updates than one that does not.
    assert low < 1.1 * planted.LEARNER.updates_needed(num * batch) * step < high


def test_money_is_paid_for_each_gpu(goals):
    answer = goals["fastest"][0]
    assert answer.predicted_cost == pytest.approx(0.001 * answer.num_devices * answer.predicted_seconds)


@pytest.mark.parametrize("goal", ["fastest", "cheapest"])
def test_advice_is_given_again_and_the_page_begins_there(goals, goal):
    answer, folder = goals[goal]
    assert advise_again(folder, "plan") == answer
    factors = what_if_of(answer).factors
    low, likely, high = what_if.seconds_range(factors)
    assert likely == pytest.approx(answer.predicted_seconds)
    assert (low, high) == pytest.approx(answer.predicted_range)
    assert what_if.cost(factors) == pytest.approx(answer.predicted_cost)
    assert factors["bandwidth"] == pytest.approx(1e10, rel=0.01)


def test_explaining_the_batch_gives_the_same_seconds(goals):
    answer, folder = goals["fastest"]
    (row,) = [one for one in api.explain(folder / "plan.toml", "batch_size").batches if one["chosen"]]
    assert row["seconds"] == pytest.approx(answer.predicted_seconds)


def test_the_plan_file_names_the_devices_and_training_takes_as_many(goals, planted):
    answer, folder = goals["fastest"]
    path, machine = folder / "plan.toml", planted.plant()
    assert read_plan(path).settings.num_devices == answer.num_devices
    host = plant_host(num_cores=8, gpus=(plant_gpu(),) * 4)
    api.train("digits", plan=path, device="cuda", run=api.Run(out=folder / "run", engine=machine, host=host))
    (asked,) = [request for request in machine.asked if isinstance(request, Train)]
    assert asked.several["num_local"] == answer.num_devices
    assert asked.settings["batch_size"] == answer.batch_size
    assert asked.num_steps == answer.num_steps


def test_a_rate_is_sought_at_the_update_of_all_devices(goals):
    answer, folder = goals["fastest"]
    (head,) = {one.batch_size for one in read_rates(folder)} - {96}
    assert head == answer.num_devices * answer.batch_size


def read_rates(folder):
    from legroom.reports.saved_answers import read_answers

    return [saved.answer for saved in read_answers(folder)[0] if saved.question == "rate"]


def test_what_was_chosen_is_tried_out_on_as_many_devices(planted, tmp_path):
    machine = planted.plant()
    answer = planted.ask(tmp_path, machine, num_gpus=4, devices="all")
    tried = [request for request in machine.asked if isinstance(request, Train) and request.several]
    assert {request.several["num_local"] for request in tried} == {answer.num_devices}
    assert {request.settings["num_devices"] for request in tried} == {answer.num_devices}


def test_one_device_is_all_unless_more_are_named(planted, tmp_path):
    machine = planted.plant()
    answer = planted.ask(tmp_path, machine, num_gpus=4)
    assert answer.num_devices == 1
    assert not [request for request in machine.asked if isinstance(request, TimeBackward | TimeRanks)]


def test_a_slow_link_leaves_one_device(planted, tmp_path):
    ring = planted.plant_ring(bandwidth=1e6)
    answer = planted.ask(tmp_path, planted.plant(ring=ring), num_gpus=2, devices="all")
    assert answer.num_devices == 1
    assert "2 devices take" in reason(answer)


def test_devices_that_wait_for_one_another_take_energy_too():
    words = {"num_steps": 100, "num_evaluations": 1, "evaluation": 0.0}
    alone = Candidate(batch_size=64, step_seconds=0.1, **words)
    shared = Candidate(batch_size=32, step_seconds=0.1, num_devices=2, energy_factor=1.6, **words)
    less_for_fewer = cost_of("frugal", None, lambda size: 2.0 if size > 32 else 1.5)
    assert cheapest([alone, shared], less_for_fewer, [64]) == alone
    assert cheapest([alone, replace(shared, energy_factor=1.0)], less_for_fewer, [64]).num_devices == 2


def test_a_number_that_was_named_alone_is_taken(planted, tmp_path):
    ring = planted.plant_ring(bandwidth=1e6)
    answer = planted.ask(tmp_path, planted.plant(ring=ring), num_gpus=2, devices="2")
    assert answer.num_devices == 2
    assert reason(answer).startswith("as asked; 2 devices take")


def test_processes_of_one_machine_are_paid_for_once(planted, tmp_path):
    """On a CPU what is sooner is cheaper, too."""
    found = [
        planted.ask(tmp_path / goal, planted.plant(), devices="all", goal=goal, price=3.6)
        for goal in ("fastest", "cheapest")
    ]
    for answer in found:
        assert answer.num_devices == 2
        assert answer.predicted_cost == pytest.approx(0.001 * answer.predicted_seconds)
        assert what_if.cost(what_if_of(answer).factors) == pytest.approx(answer.predicted_cost)


def test_devices_that_are_not_here_are_forecast_and_told_so(planted, tmp_path):
    answer = planted.ask(tmp_path, planted.plant(), num_gpus=2, devices="8")
    assert "(forecast)" in reason(answer)
    assert any("8 devices are not here (2 can be seen)" in note for note in answer.notes)
    host = plant_host(num_cores=8, gpus=(plant_gpu(),) * 2)
    run = api.Run(out=tmp_path / "run", engine=planted.plant(), host=host)
    with pytest.raises(UsageError, match="8 GPUs were asked for, and 2 can be seen here"):
        api.train("digits", plan=tmp_path / "plan.toml", device="cuda", force=True, run=run)


@pytest.mark.parametrize("devices", ["99", "1,99"])
def test_a_plan_for_more_processes_than_cores_says_in_its_first_sentence_that_it_is_a_forecast(
    planted, tmp_path, devices
):
    answer = planted.ask(tmp_path, planted.plant(), devices=devices)
    assert answer.num_devices == 99
    assert "on each of 99 devices (97 of them are not here: a forecast)" in summary(answer)
    assert any("99 devices are not here (2 can be seen)" in note for note in answer.notes)
    assert advise_again(tmp_path, "plan") == answer


def test_a_plan_for_devices_that_are_here_speaks_of_none_that_is_missing(goals):
    answer = goals["fastest"][0]
    assert answer.num_devices > 1
    assert answer.num_devices_missing == 0
    assert "not here" not in summary(answer)


@pytest.mark.parametrize("devices", ["99", "1,99"])
def test_devices_that_nothing_tells_of_are_left_out_and_told(planted, tmp_path, devices):
    """A tenth of the data, shared out among 99, is less than anything that was timed on a GPU or forecast from it."""
    answer = planted.ask(tmp_path, planted.plant(), num_gpus=2, devices=devices)
    assert answer.num_devices == 1
    assert any(sentence.startswith("99 devices were asked for, and nothing tells") for sentence in answer.missing)


def test_all_devices_of_a_machine_with_one_are_told_to_be_one(planted, tmp_path):
    answer = planted.ask(tmp_path, planted.plant(), num_gpus=1, devices="all")
    assert answer.num_devices == 1
    assert any("--devices all is one" in note for note in answer.notes)


def test_a_link_that_was_named_forecasts_from_one_device(planted, tmp_path):
    machine = planted.plant()
    answer = planted.ask(tmp_path, machine, num_gpus=1, devices="1,8", link="nvlink")
    assert answer.num_devices == 8
    assert not [request for request in machine.asked if isinstance(request, TimeRanks)]


def test_what_batch_norm_sees_is_told_where_the_batch_of_a_device_changes(planted, tmp_path):
    ring = planted.plant_ring(norm_features=[64, 64])
    answer = planted.ask(tmp_path, planted.plant(ring=ring), num_gpus=4, devices="all")
    (note,) = [note for note in answer.notes if "BatchNorm" in note]
    assert note.startswith(f"BatchNorm sees {answer.batch_size} samples, those of one device's pass, instead of 32")


@pytest.mark.parametrize(
    ("fails", "told"),
    [
        (lambda request: isinstance(request, TimeRanks), "could not train together. Rank 1 ended by signal 9"),
        (lambda request: isinstance(request, Train) and request.several, "on several failed. Rank 1 ended by signal 9"),
    ],
)
@pytest.mark.parametrize("error", [JobCrashed, UsageError])
def test_devices_that_cannot_train_together_leave_a_plan_for_one(planted, tmp_path, fails, told, error):
    machine = planted.plant()
    whole = machine.answer

    def answer(request):
        if fails(request):
            raise error("Rank 1 ended by signal 9")
        return whole(request)

    machine.answer = answer
    found = planted.ask(tmp_path, machine, num_gpus=2, devices="all")
    assert found.num_devices == 1
    assert found.predicted_seconds is not None
    assert any(told in sentence for sentence in found.missing)


def test_a_plan_for_several_is_tried_out_and_written_with_what_its_devices_need(planted, tmp_path):
    ring = planted.plant_ring(buffer_bytes=80_000, num_buffer_messages=1, unused_parameters=["head.weight"])
    machine = planted.plant(ring=ring)
    answer = planted.ask(tmp_path, machine, num_gpus=4, devices="all")
    tried = [request for request in machine.asked if isinstance(request, Train) and request.several]
    assert tried
    assert all(request.several["find_unused_parameters"] for request in tried)
    assert {request.settings["broadcast_buffers"] for request in tried} == {False}
    assert answer.settings["broadcast_buffers"] is False
    assert read_plan(Path(answer.plan_path)).settings.broadcast_buffers is False


def test_a_run_on_one_device_that_fails_is_the_jobs_own_failure(planted, tmp_path):
    machine = planted.plant(ring=planted.plant_ring(bandwidth=1e6))
    whole = machine.answer

    def answer(request):
        if isinstance(request, Train) and request.settings["seed"]:
            raise JobCrashed("It ended by signal 9")
        return whole(request)

    machine.answer = answer
    with pytest.raises(JobCrashed, match="It ended by signal 9"):
        planted.ask(tmp_path, machine, num_gpus=2, devices="all")


def test_a_job_without_a_target_is_not_shared_out(planted, tmp_path):
    answer = planted.ask(tmp_path, planted.plant(has_valid=False), num_gpus=2, devices="all", target="same")
    assert answer.num_devices == 1
    assert any(sentence.startswith("How many devices pay was not asked") for sentence in answer.missing)


def test_what_several_devices_took_is_not_asked_again(planted, tmp_path):
    first = planted.ask(tmp_path, planted.plant(), num_gpus=4, devices="all")
    machine = planted.plant()
    again = planted.ask(tmp_path, machine, num_gpus=4, devices="all")
    assert not [request for request in machine.asked if isinstance(request, TimeBackward | TimeRanks | GrowTrunk)]
    assert again.settings == first.settings


def test_a_job_that_names_devices_of_its_own_is_told_what_was_planned(planted, tmp_path):
    own = Settings(batch_size=32, learning_rate=0.003, num_epochs=20, num_devices=8)
    answer = planted.ask(tmp_path, planted.plant(own=own))
    assert "unless --devices names more; the job's own is 8" in reason(answer)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({"devices": "0"}, "--devices is '0'; write a number from 1 to 4,096, several with commas, or all"),
        ({"devices": "some"}, "--devices is 'some'"),
        ({"devices": "1,3,4"}, "--devices has 3; besides 1, 2, 4, 8"),
        ({"devices": "8", "num_gpus": 1}, "--devices has 8, and this machine has 1. Name what will link them"),
        ({"link": "nvlink"}, "--link is between several devices. Say how many with --devices"),
        ({"devices": "8", "link": "string"}, "There is no link 'string'"),
        ({"devices": "2", "num_gpus": 0, "device": "auto", "card": "t4-16gb"}, "--devices is about devices of which"),
    ],
)
def test_wrong_words_are_refused_before_anything_is_asked(planted, tmp_path, words, told):
    machine = planted.plant()
    with pytest.raises(UsageError, match=told):
        planted.ask(tmp_path, machine, **{"num_gpus": 4, **words})
    assert machine.asked == []


@pytest.mark.parametrize(("num_gpus", "driver"), [(1, plant_gpu().driver), (0, "")])
def test_a_plan_keeps_the_driver_that_it_was_made_with(planted, tmp_path, num_gpus, driver):
    planted.ask(tmp_path, planted.plant(), num_gpus=num_gpus, budget=60.0)
    assert read_records(tmp_path, "plan").head.question["driver"] == driver
