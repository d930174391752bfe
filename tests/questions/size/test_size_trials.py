"""Which trials are run: as long as they should take, at a rate that suits the optimizer, past those that fail."""

from dataclasses import replace

import pytest

from legroom.errors import JobRaised, NothingMeasured
from legroom.job import Settings
from legroom.session import advise_again
from legroom.testing import FakeSizes

PLANTED = FakeSizes(a=40.0, k1=0.8, k2=0.5, b=60.0)


def test_usual_shares_of_much_data_span_a_factor_of_sixteen_and_of_little_begin_above_one_batch(ask, trials, tmp_path):
    _, machine = ask(PLANTED, tmp_path)
    shares = sorted({request.fraction for request in trials(machine)})
    assert shares[-1] == 1.0
    assert shares[-2] / shares[0] == pytest.approx(16, rel=0.01)
    _, machine = ask(PLANTED, tmp_path / "few", planted={"num_samples": 1_280})
    assert min(request.fraction for request in trials(machine)) == pytest.approx(1.5 * 32 / 1_280)


def test_a_size_whose_training_fails_is_a_point_among_others_and_is_not_tried_again(ask, trials, tmp_path):
    fake = replace(PLANTED, raises_at=(32,))
    answer, _ = ask(fake, tmp_path)
    failed = [each for each in answer.points if each["outcome"] == "failed"]
    assert {each["width"] for each in failed} == {32}
    assert answer.recommended_width in (16, 64, 128)
    assert any("failed, and are left out of the fit: width 32" in note for note in answer.notes)
    assert any("planted: 32 cannot be trained" in note for note in answer.notes)
    assert advise_again(tmp_path, "size") == answer
    _, machine = ask(fake, tmp_path, resume=True)
    assert trials(machine) == []


def test_a_job_that_fails_at_every_size_ends_the_question_with_its_error(ask, trials, tmp_path):
    with pytest.raises(JobRaised, match="32 cannot be trained"):
        ask(replace(PLANTED, raises_at=(16, 32, 64, 128)), tmp_path)


def test_why_trials_failed_is_said_where_too_few_are_left(ask, tmp_path):
    with pytest.raises(NothingMeasured, match="Some trials failed: planted: 32 cannot be trained"):
        ask(replace(PLANTED, raises_at=(32, 64)), tmp_path, fractions=[1.0])


def test_depths_go_to_128_as_far_as_the_job_can_make_them(ask, trials, tmp_path):
    answer, machine = ask(replace(PLANTED, own=4, unit=2_000, refuses=(64, 128)), tmp_path, vary="depth")
    assert sorted({request.value for request in trials(machine)}) == [1, 2, 4, 8, 16, 32]
    assert any("The job cannot make a model of depth 64, 128, which is left out" in note for note in answer.notes)


def test_a_depth_that_was_named_and_cannot_be_made_is_refused(ask, tmp_path):
    with pytest.raises(JobRaised, match="no model of 64"):
        ask(replace(PLANTED, own=4, refuses=(64,)), tmp_path, vary="depth", depths=[4, 16, 64])


def test_great_depths_are_passed_over_where_the_budget_does_not_last(ask, trials, tmp_path):
    slow = replace(PLANTED, own=4, unit=2_000, parameters_per_second=1e7)
    full, whole = ask(slow, tmp_path / "full", vary="depth")
    answer, machine = ask(slow, tmp_path / "short", vary="depth", budget=0.03 * full.seconds)
    assert max(request.value for request in trials(whole)) == 128
    assert max(request.value for request in trials(machine)) == 16
    assert not any(each["at_least"] for each in answer.points)


class Creeps(FakeSizes):
    """On the whole data the second seed of the largest width settles after a hundred times the updates."""

    def _needed(self, request, size, samples):
        needed = super()._needed(request, size, samples)
        creeps = (request.value, request.fraction, request.settings["seed"]) == (128, 1.0, 1)
        return 100 * needed if creeps else needed


def test_a_trial_that_the_fit_can_do_without_ends_at_four_times_what_it_should_take(ask, tmp_path):
    fake = Creeps(a=40.0, k1=0.8, k2=0.5, b=60.0, parameters_per_second=1e7)
    answer, _ = ask(fake, tmp_path, seeds=2)
    own = {each["seed"]: each for each in answer.points if (each["width"], each["fraction"]) == (128, 1.0)}
    assert own[1]["outcome"] == "unsettled"
    assert own[1]["seconds"] <= 5 * own[0]["seconds"]


def test_each_optimizer_that_is_compared_trains_at_the_best_of_three_rates_and_with_every_seed(ask, trials, tmp_path):
    fake = replace(PLANTED, good_rates={"sgd": 0.3, "adam": 3e-4}, faster_adam=4.0)
    answer, machine = ask(fake, tmp_path, compare_optimizers=True, seeds=2, planted={"baseline": Settings()})
    rates = {each["solver"]: each["learning_rate"] for each in answer.solvers}
    assert rates == pytest.approx({"sgd": 0.3, "adam": 3e-4})
    asked = [request for request in trials(machine) if request.solver == "sgd"]
    assert {request.settings["seed"] for request in asked} == {0, 1}
    elsewhere = {request.settings["learning_rate"] for request in asked if request.value > 16}
    assert elsewhere == {answer.solvers[0]["learning_rate"]}
    assert answer.solver_claims["adam_needs_fewer"]
    assert any("sgd at 0.3, the best of three at the smallest size; adam at 0.0003" in note for note in answer.notes)


def test_trials_that_learned_nothing_are_left_out_of_the_fit_and_named(ask, tmp_path):
    answer, _ = ask(replace(PLANTED, at_chance=(16,)), tmp_path, widths=[16, 32, 64, 128, 256])
    plain, _ = ask(PLANTED, tmp_path / "plain", widths=[32, 64, 128, 256])
    assert (answer.k1, answer.k2) == (plain.k1, plain.k2)
    (note,) = [note for note in answer.notes if "Scored no better than a model that learned nothing" in note]
    assert "width 16" in note
    assert all((each["error"] is None) == (each["value"] == 16) for each in answer.held_out)


def test_trials_that_only_rise_end_soon_and_are_no_bounds(ask, tmp_path):
    fake = replace(PLANTED, learns_from=700)
    answer, _ = ask(fake, tmp_path, fractions=[0.0625, 0.125, 0.25, 0.5])
    plain, _ = ask(PLANTED, tmp_path / "plain", fractions=[0.125, 0.25, 0.5])
    rose = [each for each in answer.points if each["outcome"] == "only_rose"]
    assert {each["fraction"] for each in rose} == {0.0625}
    assert max(each["seconds"] for each in rose) < 0.1 * max(each["seconds"] for each in answer.points)
    assert (answer.k1_range, answer.k2_range) == (plain.k1_range, plain.k2_range)
    assert any("4 of 20 trials learned next to nothing on so little data" in note for note in answer.notes)


class Late(FakeSizes):
    """Time is over shortly after the minimum."""

    def _most_steps(self, request, needed, pace):
        return 1.5 * super()._most_steps(request, needed, pace)


def test_a_trial_is_said_to_fall_still_only_where_it_was_never_lower_than_at_its_end(ask, tmp_path):
    early, _ = ask(replace(PLANTED, never_settles_seeds=(0,)), tmp_path / "early")
    assert any("ended while their loss still fell" in note for note in early.notes)
    late, _ = ask(Late(a=40.0, k1=0.8, k2=0.5, b=60.0, never_settles_seeds=(0,)), tmp_path / "late")
    assert any("ended before it was sure that their loss had come to its minimum" in note for note in late.notes)
    assert not any("still fell" in note for note in late.notes)


def test_where_nothing_was_learned_at_any_size_that_is_why_there_is_no_law(ask, tmp_path):
    with pytest.raises(NothingMeasured, match="Some scored no better than a model that learned nothing"):
        ask(replace(PLANTED, at_chance=(16, 32, 64, 128)), tmp_path)


def test_where_the_largest_size_never_ran_the_largest_that_did_scores_the_fit(ask, tmp_path):
    fake = replace(PLANTED, most_parameters=32 * 200**2)
    answer, _ = ask(fake, tmp_path, widths=[16, 32, 64, 128, 256])
    assert {each["value"] for each in answer.held_out if each["fraction"] < 1} == {128}
    few, _ = ask(fake, tmp_path / "few", widths=[32, 64, 128, 256])
    assert not [each for each in few.held_out if each["fraction"] < 1]
