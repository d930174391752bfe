"""The search for a rate, against learners whose best rate and critical batch are planted."""

import math
import random
from dataclasses import replace

import pytest

from legroom import api
from legroom.errors import NothingMeasured, UsageError
from legroom.job import Settings
from legroom.questions.rate.fake import FakeLearner, FakeLearning
from legroom.reports.saved_answers import read_answers
from legroom.session import advise_again
from legroom.testing import FakeMachine, plant_host
from legroom.training.records import Train


def plant(seed):
    """A learner and the settings of a job on it, both drawn at random; the batch lies within 8 times B_crit."""
    rng = random.Random(seed)
    batch_size, best = rng.choice([16, 32, 64, 128]), 10 ** rng.uniform(-3.5, 0)
    learner = FakeLearner(
        s_min=rng.uniform(80, 250),
        b_crit=batch_size * 8 ** rng.uniform(-1, 1),
        best_rate=best,
        noise=rng.choice([0.0, 0.01, 0.03]),
        rate_exponent=1.0,
        seed=seed,
    )
    at_batch = learner.best_rate_at(batch_size)
    learner = replace(learner, best_rate=best * best / at_batch, diverges_above=best * rng.uniform(4, 40))
    own = best * 10 ** rng.uniform(-1, 0.3)
    return learner, batch_size, own


def ask(learner, size, own, out, *, resume=False, **more):
    num_epochs = max(1, round(3 * learner.updates_needed(size) * size / 10_000))
    baseline = Settings(batch_size=size, learning_rate=own, num_epochs=num_epochs)
    machine = FakeMachine(FakeLearning(learner), baseline=baseline)
    run = api.Run(out=out, engine=machine, host=plant_host(), resume=resume, clock=machine.clock)
    words = {"target": "loss=0.12", "budget": 1e6, **more}
    return api.rate("digits", device="cpu", run=run, **words), machine


def test_in_ninety_of_a_hundred_cases_rate_and_critical_batch_are_found(tmp_path):
    rates, batches = 0, 0
    for seed in range(100):
        learner, batch_size, own = plant(seed)
        answer, _ = ask(learner, batch_size, own, tmp_path / str(seed))
        best = learner.best_rate_at(batch_size)
        rates += abs(math.log(answer.learning_rate / best)) <= math.log(1.5)
        low, high = answer.critical_range or (0, 0)
        batches += low <= learner.b_crit <= high
    assert rates >= 90
    assert batches >= 90


LEARNER = FakeLearner(s_min=120, b_crit=100, best_rate=0.1, noise=0.01, diverges_above=1.0, rate_exponent=1.0)


def test_the_answer_tells_the_updates_that_a_cooled_run_needs(tmp_path):
    answer, _ = ask(LEARNER, 64, 0.02, tmp_path)
    truth = LEARNER.updates_needed(64)
    assert answer.reached
    assert 0.8 * truth <= answer.num_steps <= 1.3 * truth
    assert answer.cooldown_steps == round(answer.num_steps / 6)
    assert answer.sensitivity["half"] > 1


def test_advice_is_given_again_from_the_logbook(tmp_path):
    answer, _ = ask(LEARNER, 64, 0.02, tmp_path)
    assert advise_again(tmp_path, "rate") == answer


def test_a_resumed_search_repeats_no_finished_trunk_or_branch(tmp_path):
    answer, first = ask(LEARNER, 64, 0.02, tmp_path)
    again, second = ask(LEARNER, 64, 0.02, tmp_path, resume=True)
    assert second.asked == []
    assert again.learning_rate == answer.learning_rate
    assert first.asked


def test_a_target_beyond_reach_is_told_with_the_best_that_was_seen(tmp_path):
    answer, _ = ask(LEARNER, 64, 0.02, tmp_path, target="loss=1e-9")
    assert not answer.reached
    assert any("3 of 3 seeds did not reach loss 1e-09; the best" in note for note in answer.notes)
    assert "no rate reached loss 1e-09" in answer.recommendations[0].because


def test_where_every_rate_diverges_that_is_the_error(tmp_path):
    learner = replace(LEARNER, diverges_above=1e-30)
    with pytest.raises(NothingMeasured, match="Every trial diverged, at rates from"):
        ask(learner, 64, 0.02, tmp_path)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ({"target": "accuracy=1"}, r"Write score=0\.97, loss=0\.1 or same"),
        ({"target": "loss=nan"}, "cannot be read"),
        ({"method": "guess"}, "There is no method 'guess'"),
        ({"budget": 1.0}, "--budget is 1 s; it must be at least 5 s"),
        ({"seeds": 0}, "--seeds is 0"),
        ({"fraction": 1.5}, "--fraction is 1.5"),
        ({"batch_size": 0}, "--batch-size is 0"),
        ({"batch_size": 20_000}, "more than the 10,000 samples"),
    ],
)
def test_wrong_words_are_refused_in_a_sentence(tmp_path, words, sentence):
    with pytest.raises(UsageError, match=sentence):
        ask(LEARNER, 64, 0.02, tmp_path, **words)


@pytest.mark.parametrize(
    ("planted", "target", "sentence"),
    [
        ({"own_step": True}, "same", "give the Job loss and optimizer"),
        ({}, "score=0.9", "This job has no score; name a loss"),
        ({"baseline": Settings(accumulation_steps=4)}, "loss=1", "joins 4 passes into an update"),
    ],
    ids=["own step", "no score", "accumulation"],
)
def test_a_job_that_cannot_be_asked_is_refused_with_what_to_do(tmp_path, planted, target, sentence):
    run = api.Run(out=tmp_path, engine=FakeMachine(**planted), host=plant_host())
    with pytest.raises(UsageError, match=sentence):
        api.rate("digits", device="cpu", target=target, run=run)


def test_the_budget_counts_from_the_first_look_at_the_job(tmp_path):
    answer, machine = ask(LEARNER, 64, 0.02, tmp_path, target="loss=1e-9", budget=10.0)
    assert 5.0 < machine.clock() < 15.0
    assert not answer.reached


def test_an_answer_whose_seeds_did_not_reach_the_target_is_kept_and_read_again(tmp_path):
    answer, _ = ask(LEARNER, 64, 0.02, tmp_path, target="loss=1e-9")
    assert answer.steps_range == (None, None)
    assert [saved.answer for saved in read_answers(tmp_path)[0]] == [answer]
    assert "Which learning rate?" in (tmp_path / "report.html").read_text()


def test_without_a_target_the_job_is_run_by_its_own_settings_on_three_seeds(tmp_path):
    answer, machine = ask(LEARNER, 64, 0.02, tmp_path, target="same")
    runs = [request for request in machine.asked if isinstance(request, Train)]
    assert [request.settings["seed"] for request in runs] == [0, 1, 2]
    assert {request.settings["learning_rate"] for request in runs} == {0.02}
    assert answer.target == {"name": "loss", "value": 0.5, "from": "measured"}
    assert answer.baseline_seconds == pytest.approx(1.0)


def test_seconds_of_an_update_leave_evaluations_out(tmp_path):
    answer, _ = ask(LEARNER, 64, 0.02, tmp_path)
    assert answer.step_seconds == pytest.approx(0.005)
    assert answer.baseline_seconds is None


def test_a_critical_batch_that_branches_leave_open_is_not_told(tmp_path):
    answer, _ = ask(replace(LEARNER, noise=3.0), 64, 0.02, tmp_path)
    low, high = answer.critical_range
    assert high > 16 * low
    assert answer.critical_batch_size is None
    assert "the critical batch size: its branches leave it between" in answer.not_measured[0]
