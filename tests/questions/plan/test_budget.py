"""A budget bounds the whole plan: what it left no time for is told, and the plan is the best that was found by then."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from legroom import api
from legroom.plan_file import read_plan
from legroom.questions.devices.records import TimeRanks
from legroom.questions.memory.records import StepPeaks
from legroom.questions.plan.asking import Search
from legroom.questions.plan.view import section, summary
from legroom.questions.rate.records import GrowTrunk
from legroom.questions.speed.records import TimeSteps
from legroom.reports.page import gather_page, render_page
from legroom.session import advise_again
from legroom.testing import plant_host
from legroom.training.records import Train

LATE = 5.0
"""Seconds by which a process that was started last may be late."""


def ask(planted, folder, budget, *, machine=None, **words):
    """The answer, and the seconds that it took on the machine's clock."""
    machine = machine or planted.plant()
    started = machine.clock()
    return planted.ask(folder, machine, budget=budget, **words), machine.clock() - started


@pytest.mark.parametrize("budget", [20.0, 30.0, 45.0, 90.0])
@pytest.mark.parametrize("kind", ["sooner", "same", "never there", "several devices"])
def test_a_plan_ends_by_its_budget(planted, tmp_path, kind, budget):
    machine = planted.plant(learner=replace(planted.LEARNER, s_min=4000)) if kind == "never there" else None
    words = {"several devices": {"num_gpus": 4, "devices": "all"}, "same": {"target": "same"}}.get(kind, {})
    answer, seconds = ask(planted, tmp_path, budget, machine=machine, **words)
    assert seconds <= budget + LATE
    assert advise_again(tmp_path, "plan") == answer


@pytest.mark.parametrize("budget", [20.0, 30.0])
def test_a_plan_of_slow_steps_ends_by_its_budget_and_seeks_no_rate_below_the_jobs_own_batch(planted, tmp_path, budget):
    machine = planted.plant(seconds=lambda size: 0.05 * size)
    answer, seconds = ask(planted, tmp_path, budget, machine=machine)
    assert seconds <= budget + LATE
    assert any("memory holds the batch was not proved" in sentence for sentence in answer.missing)
    assert answer.spent["rate"]
    assert not any("at batches of" in sentence and "at batches of 32" not in sentence for sentence in answer.missing)


def test_what_there_was_no_time_for_is_told_and_more_time_leaves_less_of_it(planted, tmp_path):
    found = [ask(planted, tmp_path / f"{budget}", budget)[0] for budget in (25.0, 45.0, 300.0)]
    missing = [len(answer.missing) for answer in found]
    assert missing == sorted(missing, reverse=True)
    assert missing[0] > 0 == missing[-1]
    assert all("Raise --budget" in sentence for answer in found for sentence in answer.missing)
    assert any("not tried out on fresh seeds: the budget left" in sentence for sentence in found[0].missing)
    assert found[0].predicted_seconds is not None, "a rate was found in time, and stands"


def test_several_devices_are_not_asked_where_they_would_take_more_than_is_left(planted, tmp_path):
    machine = planted.plant()
    answer, _ = ask(planted, tmp_path, 60.0, machine=machine, num_gpus=4, devices="all")
    assert not [request for request in machine.asked if isinstance(request, TimeRanks)]
    assert any("How many devices pay was not asked: the budget left" in sentence for sentence in answer.missing)


def late(machine, kind, seconds):
    """The machine, which takes so much longer for requests of a kind that a budget ends meanwhile."""
    whole = machine.answer

    def answer(request):
        if isinstance(request, kind):
            machine.clock.advance(seconds)
        return whole(request)

    machine.answer = answer
    return machine


def test_where_nothing_is_left_the_plan_is_what_ran_and_nothing_more_is_asked(planted, tmp_path):
    machine = late(planted.plant(), TimeSteps, 100.0)
    answer, _ = ask(planted, tmp_path, 60.0, machine=machine)
    assert not [request for request in machine.asked if isinstance(request, GrowTrunk | StepPeaks | Train)]
    assert (answer.batch_size, answer.learning_rate) == (planted.OWN.batch_size, planted.OWN.learning_rate)
    assert any(sentence.startswith("Rate, schedule and length are the job's own") for sentence in answer.missing)
    assert any("memory holds the batch was not proved" in sentence for sentence in answer.missing)
    assert "no forecast" in summary(answer)
    assert read_plan(tmp_path / "plan.toml").settings.batch_size == planted.OWN.batch_size
    assert section(answer).tables
    assert advise_again(tmp_path, "plan") == answer


def test_first_looks_end_with_the_jobs_own_batch_where_they_take_a_quarter_of_the_budget(planted, tmp_path):
    machine = late(planted.plant(), TimeSteps, 4.0)
    answer, _ = ask(planted, tmp_path, 60.0, machine=machine)
    assert [size for one in machine.asked if isinstance(one, TimeSteps) for size in one.batch_sizes][:5] == [
        *(1, 2, 4, 8),
        planted.OWN.batch_size,
    ]
    assert answer.spent["speed"] < 30
    assert not any("at batches of 8" in sentence for sentence in answer.missing)
    assert advise_again(tmp_path, "plan") == answer


def test_a_plan_whose_memory_was_not_proved_says_so_on_its_page(planted, tmp_path):
    found, _ = ask(planted, tmp_path, 60.0, machine=late(planted.plant(), Train, 60.0))
    assert "device_bytes" in section(found).what_if.guessed
    assert any("was not proved" in sentence for sentence in found.missing)
    assert not [item for item in found.recommendations if item.name == "eval_batch_size"]
    page = gather_page(tmp_path)
    assert "memory" not in [part.question for part in page.sections], "nothing was measured that could be drawn"
    html = render_page(page)
    assert html.count("memory holds the batch was not proved") == 1, "told once"
    assert 'name="batch_size"' in html
    assert 'name="device_bytes"' not in html


def test_answers_that_lie_in_the_folder_cost_nothing(planted, tmp_path):
    whole, _ = ask(planted, tmp_path, 3000.0)
    again, seconds = ask(planted, tmp_path, 60.0)
    assert seconds <= 60.0 + LATE
    assert {**again.settings, "num_epochs": None} == {**whole.settings, "num_epochs": None}, (
        "shorter runs are tried out only where the budget lasts for them"
    )
    assert not [sentence for sentence in again.missing if "Rate" in sentence]


def test_a_batch_that_was_not_timed_is_not_said_not_to_fit(planted, tmp_path):
    """Where time ran out after small batches, the job's own one is larger than all that were timed: it runs today."""
    slow = planted.plant(seconds=lambda size: 1.0 if size <= 16 else 30.0)
    answer, _ = ask(planted, tmp_path, 20.0, machine=slow, target="same")
    assert (answer.batch_size, answer.accumulation_steps) == (planted.OWN.batch_size, 1)
    assert not any("do not fit" in item.because for item in answer.recommendations)


@pytest.mark.parametrize("num_epochs", [32, 49, 97, 140, 218])
def test_a_plan_of_a_long_job_costs_half_a_run_at_most_unless_a_budget_is_named(planted, tmp_path, num_epochs):
    """Their own runs take 132, 202, 400, 577 and 898 s."""
    own, machine = replace(planted.OWN, num_epochs=num_epochs), planted.plant()
    machine.memory.baseline = own
    whole = num_epochs * (planted.NUM_SAMPLES // own.batch_size) * planted.step_seconds(own.batch_size)
    answer, seconds = ask(planted, tmp_path, None, machine=machine, target="same")
    assert seconds == pytest.approx(sum(answer.spent.values()), abs=1.0)
    assert seconds <= min(300.0, 0.5 * whole) + LATE
    assert any("the plan was given half of that" in note for note in answer.notes) == (whole < 600)
    named, _ = ask(planted, tmp_path / "named", 300.0, target="same")
    assert not any("the plan was given half of that" in note for note in named.notes)


def test_a_plan_of_a_short_job_has_five_minutes_unless_a_budget_is_named(planted, tmp_path):
    assert not any("was given half" in note for note in ask(planted, tmp_path, None, target="same")[0].notes)


@pytest.mark.parametrize(("busy_cores", "is_told"), [(0.1, False), (1.6, True)])
def test_programs_that_use_the_cores_are_told_before_anything_is_timed(planted, tmp_path, busy_cores, is_told):
    told = []
    run = api.Run(
        out=tmp_path, engine=(machine := planted.plant()), host=plant_host(busy_cores=busy_cores), clock=machine.clock
    )
    run = replace(run, tell=lambda sentence: told.append((sentence, len(machine.asked))))
    answer = api.plan("digits", target="loss=0.12", budget=3000.0, device="cpu", run=run)
    sentences = [(sentence, num) for sentence, num in told if "Other programs use 1.6 of 2 cores" in sentence]
    assert bool(sentences) == is_told
    assert all(num == 0 for _, num in sentences)
    assert any(note.startswith("Other programs use") for note in answer.notes) == is_told


@pytest.mark.parametrize(("gone", "budget"), [(10.0, 75.0), (100.0, 300.0)])
def test_a_budget_is_not_shortened_to_what_is_gone_already(gone, budget):
    found = []
    search = SimpleNamespace(
        is_budget_named=False,
        budget=300.0,
        started=0.0,
        clock=lambda: gone,
        question=SimpleNamespace(notes=[]),
        learn=lambda notes: found.extend(notes),
    )
    Search.bound_by(search, 150.0)
    assert search.budget == budget
    assert len(found) == (budget < 300.0)
