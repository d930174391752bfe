"""Variables of the environment, and what else makes updates faster: measured, tried out with the plan, and carried."""

from dataclasses import replace

import pytest
from pydantic import TypeAdapter

from legroom import api
from legroom.environments import REUSE_MALLOC
from legroom.job import Settings
from legroom.logbook import read_records
from legroom.plan_file import read_plan
from legroom.plan_use import variables_of
from legroom.questions.memory.records import StepPeaks
from legroom.questions.plan.advice import advise
from legroom.questions.plan.forecast import forecast_of
from legroom.questions.plan.records import OwnTurn, PlanQuestion
from legroom.questions.plan.view import compared_rows, summary
from legroom.session import advise_again
from legroom.testing import FakeSteps
from legroom.training.records import Train

OWN = Settings(batch_size=32, learning_rate=0.02, num_epochs=20)
KEPT = 0.6
"""Of a step, where its memory is kept."""


def plant(planted, *, own=OWN, in_training=KEPT):
    """The planted machine, on which steps fetch memory anew for 0.4 of their time."""
    machine = planted.plant(own=own)
    machine.steps = FakeSteps(
        seconds=lambda size: KEPT * planted.step_seconds(size),
        fetching_seconds=lambda size: (1 - KEPT) * planted.step_seconds(size),
        bytes_per_sample=1e4,
    )
    train = machine.runs.train

    def quicker(request):
        found, share = train(request), in_training if request.variables else 1.0
        return replace(found, seconds=share * found.seconds, samples_per_second=found.samples_per_second / share)

    machine.runs.train = quicker
    return machine


def near_the_best(planted):
    return Settings(batch_size=128, learning_rate=planted.LEARNER.best_rate_at(128), num_epochs=20)


def environment_of(answer):
    return next((item.value for item in answer.recommendations if item.name == "environment"), None)


def question_of(folder):
    return TypeAdapter(PlanQuestion).validate_python(read_records(folder, "plan").head.question)


def test_variables_that_pay_are_tried_out_and_carried_in_the_plan(planted, tmp_path):
    plain = planted.ask(tmp_path / "plain", planted.plant(own=OWN))
    machine = plant(planted)
    answer = planted.ask(tmp_path / "kept", machine)
    assert environment_of(plain) is None
    assert variables_of(read_plan(tmp_path / "kept" / "plan.toml")) == REUSE_MALLOC
    assert "MALLOC_MMAP_MAX_=0" in summary(answer)
    assert "environment" in [row[0] for row in compared_rows(answer)]
    assert answer.predicted_seconds == pytest.approx(KEPT * plain.predicted_seconds, rel=0.1)
    assert answer.baseline_seconds == pytest.approx(plain.baseline_seconds, rel=0.1)
    tried = [one for one in machine.asked if isinstance(one, Train) and one.target and one.settings["seed"] >= 100]
    assert tried
    assert all(dict(request.variables) == REUSE_MALLOC for request in tried)
    assert advise_again(tmp_path / "kept", "plan") == answer


@pytest.mark.parametrize("named", [{}, {"memory": "1GiB"}], ids=["what is free", "a budget"])
def test_memory_is_proved_with_the_variables_that_the_plan_names(planted, tmp_path, named):
    machine = plant(planted)
    answer = planted.ask(tmp_path, machine, **named)
    assert environment_of(answer) is not None
    proofs = [request for request in machine.asked if isinstance(request, StepPeaks) and request.proof]
    assert dict(proofs[-1].variables) == REUSE_MALLOC
    assert proofs[-1].environment == REUSE_MALLOC
    assert proofs[-1].batch_size >= answer.batch_size
    assert [request.variables for request in proofs if not request.variables] == [{}] * len(named)


def test_own_settings_that_stay_are_proved_with_what_they_will_run_with(planted, tmp_path):
    machine = plant(planted, own=near_the_best(planted))
    planted.ask(tmp_path, machine)
    proofs = [request for request in machine.asked if isinstance(request, StepPeaks) and request.proof]
    assert {tuple(request.variables) for request in proofs} == {tuple(REUSE_MALLOC)}


def test_a_forecast_that_was_not_tried_out_counts_the_gain_of_variables(planted, tmp_path):
    planted.ask(tmp_path, plant(planted))
    question = replace(question_of(tmp_path), rehearsals=())
    fast, plain = forecast_of(question), forecast_of(replace(question, environment=None))
    assert fast.chosen.step_seconds == pytest.approx(KEPT * plain.chosen.step_seconds, rel=0.1)


def test_own_settings_that_stay_are_run_with_variables_that_turns_show_to_pay(planted, tmp_path):
    answer = planted.ask(tmp_path, plant(planted, own=near_the_best(planted)))
    assert (answer.batch_size, answer.learning_rate) == (128, near_the_best(planted).learning_rate)
    assert not answer.kept
    assert environment_of(answer) is not None
    assert answer.predicted_seconds == pytest.approx(KEPT * answer.baseline_seconds, rel=0.1)
    assert "1.67, 1.67, 1.67 times as fast" in answer.found["turns"]
    assert advise_again(tmp_path, "plan") == answer


def test_what_turns_do_not_show_to_pay_changes_nothing_where_own_settings_stay(planted, tmp_path):
    """Steps alone are faster with memory kept; the training loop is not."""
    machine = plant(planted, own=near_the_best(planted), in_training=1.0)
    answer = planted.ask(tmp_path, machine)
    assert answer.kept
    assert environment_of(answer) is None
    assert answer.predicted_seconds == answer.baseline_seconds


@pytest.mark.parametrize(("ratio", "pays"), [(0.5, True), (0.98, False)])
def test_workers_beside_own_settings_that_stay_are_those_that_turns_show_to_pay(planted, tmp_path, ratio, pays):
    machine = planted.plant(own=near_the_best(planted))
    answer = planted.ask(tmp_path, machine)
    assert answer.kept
    found = api.loading("digits", device="cpu", batch_size=128, run=api.Run(out=tmp_path / "more", engine=machine))
    assert found.num_workers > 0
    found = replace(found, samples_per_second=0.0, batch_seconds={}, law={})  # it says how many workers, and no more
    words = {"num_workers": found.num_workers, "prefetch_factor": found.prefetch_factor}
    changed = {name: value for name, value in words.items() if value != getattr(OWN, name)}
    turn = OwnTurn(own_step_seconds=0.02, step_seconds=ratio * 0.02, settings=changed)
    records, question = read_records(tmp_path, "plan"), question_of(tmp_path)
    untried = advise(records, replace(question, loading=[found]))
    tried = advise(records, replace(question, loading=[found], turns=[turn] * 3))
    assert (untried.num_workers, untried.kept) == (0, True)
    assert (tried.num_workers, tried.kept) == ((found.num_workers, False) if pays else (0, True))
    assert (tried.predicted_seconds < answer.predicted_seconds) == pays


@pytest.mark.parametrize(("throughput", "pays"), [(1200, True), (600, False)])
def test_workers_that_surely_pay_by_what_loaders_give_need_no_turns(planted, tmp_path, throughput, pays):
    """One worker gives 250 samples/s: the job's own two cannot give more than 500."""
    machine = planted.plant(own=replace(near_the_best(planted), num_workers=2))
    answer = planted.ask(tmp_path, machine)
    found = api.loading("digits", device="cpu", batch_size=128, run=api.Run(out=tmp_path / "more", engine=machine))
    parts = {"step": 0.02, "one_worker": 128 / 250, "preparation": 0.58}
    found = replace(found, num_workers=6, samples_per_second=throughput, batch_seconds=parts, law={})
    records, question = read_records(tmp_path, "plan"), question_of(tmp_path)
    untried = advise(records, replace(question, loading=[found], turns=[], variants=None, environment=None))
    assert (answer.kept, untried.num_workers) == (True, 6 if pays else 2)
    assert (untried.batch_size, untried.learning_rate) == (answer.batch_size, answer.learning_rate)
