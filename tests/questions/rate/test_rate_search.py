"""The search for a rate, against learners whose best rate and critical batch are planted."""

import importlib.util
import math
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from legroom import api
from legroom.errors import NothingMeasured, UsageError
from legroom.job import Settings
from legroom.questions.rate.fake import FakeLearner, FakeLearning, LawlessLearner
from legroom.questions.rate.records import BranchBatch, GrowTrunk, RampRate, RunTrial
from legroom.reports.saved_answers import read_answers
from legroom.session import advise_again
from legroom.testing import FakeMachine, plant_host

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "rate_planted.py"
found = importlib.util.spec_from_file_location("rate_planted", SCRIPT)
planted = importlib.util.module_from_spec(found)
sys.modules["rate_planted"] = planted
found.loader.exec_module(planted)


def ask(
    learner,
    size,
    own,
    out,
    *,
    resume=False,
    accumulation_steps=1,
    own_epochs=None,
    score=None,
    kill_at=None,
    asked=None,
    times_on_all_data=1.0,
    most_samples=None,
    warmup_steps=0,
    schedule="constant",
    planted=None,
    **more,
):
    """The answer of a planted job, and the machine it was asked of."""
    num_epochs = own_epochs or max(1, round(3 * learner.updates_needed(size) * size / 10_000))
    passes = {"batch_size": size // accumulation_steps, "accumulation_steps": accumulation_steps}
    pace = {"warmup_steps": warmup_steps, "schedule": schedule}
    baseline = Settings(**passes, learning_rate=own, num_epochs=num_epochs, **pace)
    learning = FakeLearning(learner, score=score, times_on_all_data=times_on_all_data, most_samples=most_samples)
    has = {**({"has_score": True} if score is not None else {}), **(planted or {})}
    machine = FakeMachine(learning, baseline=baseline, **has)
    if kill_at is not None:
        answer = machine.answer

        def until_killed(request):
            if len(machine.asked) == kill_at:
                raise Killed
            asked.append(request)
            return answer(request)

        machine.answer = until_killed
    run = api.Run(out=out, engine=machine, host=plant_host(), resume=resume, clock=machine.clock)
    words = {"target": "loss=0.12", "budget": 1e6, **more}
    return api.rate("digits", device="cpu", run=run, **words), machine


def test_in_nine_of_ten_cases_rate_and_critical_batch_are_found(tmp_path):
    """As benchmarks/rate_planted.py counts them, over the first twenty of its hundred cases."""
    rows = [planted.ask(seed, tmp_path / str(seed)) for seed in range(20)]
    assert sum(abs(math.log(row.rate_ratio)) <= math.log(1.5) for row in rows) >= 18
    assert sum(row.is_plausible for row in rows) >= 18
    assert sum(row.inside for row in rows) >= 17
    assert sum(row.width <= 4.001 for row in rows) >= 18
    assert all(abs(math.log(row.noise_ratio)) < math.log(2) for row in rows)


def test_where_the_law_does_not_hold_the_rate_is_found_all_the_same(tmp_path):
    rows = [planted.ask(seed, tmp_path / str(seed), LawlessLearner) for seed in range(6)]
    assert sum(abs(math.log(row.rate_ratio)) <= math.log(1.6) for row in rows) >= 5


LEARNER = FakeLearner(s_min=120, b_crit=100, best_rate=0.1, noise=0.01, diverges_above=1.0, rate_exponent=1.0)


def test_the_answer_tells_the_updates_that_a_cooled_run_needs(tmp_path):
    answer, _ = ask(LEARNER, 64, 0.02, tmp_path)
    truth = LEARNER.updates_needed(64)
    assert answer.reached
    assert 0.8 * truth <= answer.num_steps <= 1.3 * truth
    assert answer.cooldown_steps == round(answer.num_steps / 6)
    assert answer.sensitivity["half"] > 1


class HastyLearner(FakeLearner):
    """Rates above the best one are far ahead for some updates, and stand still from then on."""

    def _gain(self, share):
        if share <= 2.0:
            return super()._gain(share)
        return 4.0 if self.num_updates < 60 else 0.02


def test_a_lower_rate_that_was_left_early_is_looked_at_again_later(tmp_path):
    learner = HastyLearner(s_min=500, b_crit=64, best_rate=0.02, diverges_above=1.0)
    answer, machine = ask(learner, 64, 0.02, tmp_path)
    assert answer.reached
    assert 0.01 < answer.learning_rate < 0.04
    trunks = [request for request in machine.asked if isinstance(request, GrowTrunk) and request.settings["seed"] == 0]
    early = [request.settings["learning_rate"] for request in trunks if request.to_step > 60]
    assert max(early[:3]) > 0.04, "high rates were ahead at first"


class LuckyLearner(FakeLearner):
    """One whose first seed is at the target by luck, early and once."""

    def evaluate(self):
        is_lucky = self.seed == 0 and 60 <= self.num_updates < 80
        return 0.11 if is_lucky else super().evaluate()


def test_what_one_seed_was_lucky_with_is_not_the_end_of_the_search(tmp_path):
    planted = {name: getattr(LEARNER, name) for name in ("s_min", "b_crit", "best_rate", "noise", "diverges_above")}
    answer, _ = ask(LuckyLearner(**planted, rate_exponent=1.0), 64, 0.02, tmp_path)
    truth = LEARNER.updates_needed(64)
    assert answer.reached
    assert 0.8 * truth <= answer.num_steps <= 1.3 * truth
    assert abs(math.log(answer.learning_rate / LEARNER.best_rate_at(64))) < math.log(2)


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
        ({"num_workers": -1}, r"--workers is -1; it must be a whole number from 0"),
        ({"num_workers": 4000}, r"num_workers is 4000; .* on this machine"),
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
        ({"has_valid": False}, "loss=1", "judged on validation data, and this job has none; give the Job valid_data"),
    ],
    ids=["own step", "no score", "no validation data"],
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
    runs = [request for request in machine.asked if isinstance(request, RunTrial)]
    assert [request.settings["seed"] for request in runs] == [0, 1, 2]
    assert {request.settings["learning_rate"] for request in runs} == {0.02}
    assert answer.target["from"] == "measured"
    low, high = answer.target["range"]
    assert low < high == answer.target["value"], "a loss that not all seeds come to"
    assert answer.reached
    assert 0 < answer.baseline_seconds <= 0.005 * answer.baseline_steps


def test_a_run_of_nearly_a_quarter_of_the_budget_is_made_on_two_seeds(tmp_path):
    answer, machine = ask(LEARNER, 64, 0.02, tmp_path, target="same", budget=20.0)
    assert answer.target["from"] == "measured"
    assert len([request for request in machine.asked if isinstance(request, RunTrial)]) == 2
    low, high = answer.target["range"]
    assert answer.target["value"] == pytest.approx(high + (high - low) / 2), "a loss that a fresh seed may not come to"


def test_seconds_of_an_update_leave_evaluations_out(tmp_path):
    answer, _ = ask(LEARNER, 64, 0.02, tmp_path)
    assert answer.step_seconds == pytest.approx(0.005)
    assert answer.baseline_seconds is None


def test_a_critical_batch_that_branches_leave_open_is_not_told(tmp_path):
    """Noise of gradients tells the planted 100, and branches forty times that: one of them is wrong."""
    answer, _ = ask(replace(LEARNER, noise=1.0), 64, 0.02, tmp_path)
    assert answer.critical_batch_size is None
    low, high = answer.critical_range
    assert low < 110 < 1000 < high
    assert "the critical batch size: " in answer.not_measured[0]


def test_the_free_guess_of_the_critical_batch_comes_from_the_trunks_own_gradients(tmp_path):
    answer, _ = ask(LEARNER, 64, 0.02, tmp_path)
    low, high = answer.noise_range
    assert low < answer.noise_scale < high
    assert answer.noise_scale == pytest.approx(100, rel=0.3)


def test_a_job_that_accumulates_is_searched_over_whole_updates(tmp_path):
    whole, _ = ask(LEARNER, 64, 0.02, tmp_path / "whole")
    joined, machine = ask(LEARNER, 64, 0.02, tmp_path / "joined", accumulation_steps=4)
    assert joined.batch_size == whole.batch_size == 64
    assert joined.settings["batch_size"] == 16
    assert joined.learning_rate == pytest.approx(whole.learning_rate)
    assert joined.num_steps == pytest.approx(whole.num_steps, rel=0.02)
    branches = [request for request in machine.asked if isinstance(request, BranchBatch)]
    assert {request.batch_size * request.accumulation_steps for request in branches} >= {64, 256}
    assert max(request.batch_size for request in branches) <= 16


def test_another_batch_of_a_job_that_accumulates_keeps_its_passes_small(tmp_path):
    answer, _ = ask(LEARNER, 64, 0.02, tmp_path, accumulation_steps=4, batch_size=128)
    assert (answer.settings["batch_size"], answer.settings["accumulation_steps"]) == (16, 8)


def test_a_loss_that_never_moves_did_not_leave_chance(tmp_path):
    learner = replace(LEARNER, s_min=1e9, noise=0.0)
    with pytest.raises(NothingMeasured, match=r"did not leave chance: 2\.3 on .* Are labels shuffled"):
        ask(learner, 64, 0.02, tmp_path, own_epochs=5)


def test_a_score_that_is_no_number_is_refused(tmp_path):
    words = {"target": "score=0.9", "score": lambda loss: math.nan}
    with pytest.raises(NothingMeasured, match=r"The score was no number in all .* judge by the loss"):
        ask(LEARNER, 64, 0.02, tmp_path, **words)
    with pytest.raises(NothingMeasured, match="own settings gave no score that is a number"):
        ask(LEARNER, 64, 0.02, tmp_path, **{**words, "target": "same"})
    with pytest.raises(NothingMeasured, match="own settings gave no score that is a number"):
        ask(LEARNER, 64, 0.02, tmp_path, **{**words, "target": "same"}, budget=20.0, own_epochs=40)


def test_own_settings_that_diverge_give_no_target(tmp_path):
    with pytest.raises(NothingMeasured, match="own settings diverged, so there is no target"):
        ask(LEARNER, 64, 30.0, tmp_path, target="same")


def test_a_part_of_the_data_with_fewer_samples_than_a_batch_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"A batch of 64 is more than the 50 samples there are in 0\.005 of the data"):
        ask(LEARNER, 64, 0.02, tmp_path, fraction=0.005)


@pytest.mark.parametrize("times", [0.8, 1.5])
def test_a_search_on_a_part_of_the_data_says_how_far_the_answer_moved_on_all_of_it(tmp_path, times):
    answer, machine = ask(LEARNER, 64, 0.02, tmp_path, fraction=0.1, times_on_all_data=times)
    whole = [request for request in machine.asked if request.kind == "grow_trunk" and request.fraction == 1]
    assert {(each.settings["learning_rate"], each.settings["seed"]) for each in whole} == {(answer.learning_rate, 0)}
    assert answer.on_all_data["reached"]
    assert answer.on_all_data["times"] == pytest.approx(times, rel=0.1)
    assert answer.on_all_data["times"] == answer.on_all_data["num_steps"] / answer.num_steps
    assert any("times those on 0.1 of it (one seed)" in note for note in answer.notes)
    assert advise_again(tmp_path, "rate") == answer


def test_a_target_that_the_answer_does_not_reach_on_all_of_the_data_is_told(tmp_path):
    answer, _ = ask(LEARNER, 64, 0.02, tmp_path, fraction=0.1, times_on_all_data=100.0)
    assert answer.reached
    assert not answer.on_all_data["reached"]
    assert any("and not to loss 0.12: raise --budget" in note for note in answer.notes)


def test_an_answer_that_nobody_tried_on_all_of_the_data_says_so(tmp_path):
    short, machine = ask(LEARNER, 64, 0.02, tmp_path / "short", fraction=0.1, budget=8.0, warmup_steps=200)
    assert {request.fraction for request in machine.asked if request.kind == "grow_trunk"} == {0.1}
    greedy, _ = ask(LEARNER, 64, 0.02, tmp_path / "greedy", fraction=0.1, method="greedy")
    assert "updates on all of the data: the budget did not last" in short.not_measured[-1]
    assert "updates on all of the data: --method auto runs its answer there" in greedy.not_measured[-1]
    assert short.on_all_data is greedy.on_all_data is None


def test_what_an_unreached_target_would_take_is_extrapolated_with_a_range(tmp_path):
    answer, _ = ask(replace(LEARNER, noise=0.0), 64, 0.02, tmp_path, target="loss=0.02", budget=6.5)
    truth = LEARNER.updates_needed(64) * math.log(2.3 / 0.02) / math.log(2.3 / 0.1)
    assert not answer.reached
    low, high = answer.extrapolated_steps
    assert low < 2 * truth
    assert high is None or high > truth / 2
    assert any("By the shape of its curve the target takes" in note for note in answer.notes)


def test_a_long_run_by_the_jobs_own_settings_is_forecast_with_a_range(tmp_path):
    answer, _ = ask(LEARNER, 64, 0.02, tmp_path, target="same", budget=20.0, own_epochs=40)
    assert answer.target["from"] == "forecast"
    low, high = answer.target["range"]
    assert 0 <= low <= answer.target["value"] <= high
    assert answer.baseline_seconds is None
    assert any("is a forecast (" in note for note in answer.notes)


def test_a_forecast_score_is_never_above_what_scores_can_be(tmp_path):
    words = {"target": "same", "budget": 20.0, "own_epochs": 40, "score": lambda loss: 1 / (1 + loss) ** 2}
    answer, _ = ask(LEARNER, 64, 0.1, tmp_path, **words)
    assert answer.target["name"] == "score"
    assert answer.target["from"] == "forecast"
    assert answer.target["range"][1] <= 1.0


class CoolingLearner(FakeLearner):
    """One whose score stands still while its rate is high, as a ResNet's does: noise hides what it has learned."""

    rate = 0.0

    def step(self, *, rate, batch_size):
        self.rate = rate
        super().step(rate=rate, batch_size=batch_size)

    def evaluate(self):
        return super().evaluate() + 5.0 * self.rate


def test_what_a_falling_schedule_comes_to_is_forecast_by_runs_that_are_cooled_down(tmp_path):
    planted = {name: getattr(LEARNER, name) for name in ("s_min", "b_crit", "best_rate", "diverges_above")}
    learner = CoolingLearner(**planted)
    words = {"target": "same", "budget": 20.0, "own_epochs": 40}
    falling, machine = ask(learner, 64, 0.1, tmp_path / "falling", schedule="cosine", **words)
    constant, _ = ask(learner, 64, 0.1, tmp_path / "constant", **words)
    assert falling.target["from"] == constant.target["from"] == "forecast"
    assert falling.target["value"] < 0.2, "what is learned shows once the rate has fallen"
    assert constant.target["value"] > 0.4, "a rate that never falls hides it to the end"
    assert sum(isinstance(request, GrowTrunk) and request.cooldown_steps > 0 for request in machine.asked[:8]) >= 3


class Killed(Exception):
    """What a kill looks like from inside."""


@pytest.mark.parametrize("method", ["auto", "greedy", "transfer"])
def test_killed_at_any_moment_a_resumed_search_repeats_nothing(tmp_path, method):
    words = {"method": method, **({"batch_size": 256, "compare_rules": True} if method == "transfer" else {})}
    whole, machine = ask(LEARNER, 64, 0.02, tmp_path / "whole", **words)
    for kill_at in range(2, len(machine.asked), max(1, len(machine.asked) // 4)):
        out, asked = tmp_path / str(kill_at), []
        with pytest.raises(Killed):
            ask(LEARNER, 64, 0.02, out, kill_at=kill_at, asked=asked, **words)
        again, second = ask(LEARNER, 64, 0.02, out, resume=True, **words)
        assert len(asked) == kill_at
        assert not [request for request in second.asked if request in asked]
        assert len(second.asked) == len(machine.asked) - kill_at
        assert again.learning_rate == whole.learning_rate
        assert again.num_steps == pytest.approx(whole.num_steps, rel=0.02), "trunks trained again show other gradients"


def test_own_settings_that_learn_nothing_give_no_target(tmp_path):
    with pytest.raises(NothingMeasured, match=r"leave chance: they end at loss .* Are labels .* to reach$"):
        ask(replace(LEARNER, diverges_above=math.inf), 64, 1.2, tmp_path, target="same")
    frozen = replace(LEARNER, s_min=math.inf, noise=0.0)
    with pytest.raises(NothingMeasured, match=r"had only come .* or weights frozen\? If not, .* raise --budget"):
        ask(frozen, 64, 0.02, tmp_path, target="same", own_epochs=400, budget=20.0)


def test_a_run_that_hardly_began_gives_what_it_had_reached_as_target(tmp_path):
    answer, _ = ask(LEARNER, 64, 0.1, tmp_path, target="same", budget=8.0, own_epochs=100)
    assert answer.target["from"] == "begun"
    assert any("had reached when a quarter of the budget was over" in note for note in answer.notes)


def test_branches_that_memory_does_not_hold_are_left_out_and_smaller_ones_tell_the_critical_batch(tmp_path):
    answer, machine = ask(LEARNER, 64, 0.02, tmp_path, most_samples=128)
    assert answer.reached
    assert any("Branches of 256 samples an update could not be trained" in note for note in answer.notes)
    low, high = answer.critical_range
    assert low <= LEARNER.b_crit <= high
    assert sum(isinstance(request, BranchBatch) and request.batch_size == 256 for request in machine.asked) == 1
    again, second = ask(LEARNER, 64, 0.02, tmp_path, most_samples=128, resume=True)
    assert second.asked == []
    assert again.critical_batch_size == answer.critical_batch_size
    assert advise_again(tmp_path, "rate").learning_rate == answer.learning_rate


def test_a_long_warmup_leaves_the_first_look_within_the_budget(tmp_path):
    answer, machine = ask(LEARNER, 64, 0.02, tmp_path / "one", warmup_steps=400, budget=10.0)
    assert machine.clock() < 15.0
    assert len({curve["learning_rate"] for curve in answer.curves}) == 1
    needed = r"did not last for a single trial: one takes 60 s\. Raise --budget to 70 s or more$"
    with pytest.raises(NothingMeasured, match=needed):
        ask(LEARNER, 64, 0.02, tmp_path / "none", warmup_steps=4_000, budget=10.0)
    with pytest.raises(NothingMeasured, match=r"to 12\d s or more\. The job's own settings .* loss 0\."):
        ask(LEARNER, 64, 0.02, tmp_path / "own", warmup_steps=4_000, budget=10.0, target="same", own_epochs=40)


def test_a_warmup_that_the_job_does_not_ask_for_is_as_long_as_the_budget_affords(tmp_path):
    answer, machine = ask(LEARNER, 64, 0.02, tmp_path, own_epochs=2_000, budget=10.0)
    assert 10 < answer.warmup_steps < 0.005 * answer.baseline_steps
    assert machine.clock() < 15.0
    assert len({curve["learning_rate"] for curve in answer.curves}) >= 3


def test_at_another_batch_size_the_jobs_own_warmup_is_over_as_many_samples(tmp_path):
    answer, _ = ask(LEARNER, 64, 0.02, tmp_path, warmup_steps=120, batch_size=256)
    assert answer.warmup_steps == 30


def test_what_the_search_cost_counts_the_runs_by_the_jobs_own_settings(tmp_path):
    answer, machine = ask(LEARNER, 64, 0.02, tmp_path / "same", target="same")
    target = f"loss={answer.target['value']!r}"
    given, _ = ask(LEARNER, 64, 0.02, tmp_path / "given", target=target)
    num_own = sum(isinstance(request, RunTrial) for request in machine.asked)
    assert answer.num_samples == given.num_samples + num_own * answer.baseline_steps * 64
    assert answer.num_trials == given.num_trials + num_own


def test_an_accuracy_within_the_luck_of_few_samples_left_chance_where_the_loss_fell_far(tmp_path):
    """It may count tokens, of which a sample has many."""
    words = {"score": lambda loss: 1 / (1 + loss), "planted": {"chance": 0.85, "num_valid_samples": 20}}
    answer, _ = ask(LEARNER, 64, 0.1, tmp_path, target="score=0.89", **words)
    assert answer.reached
    own, _ = ask(LEARNER, 64, 0.1, tmp_path / "own", target="same", **words)
    assert own.target["from"] == "measured"


@pytest.mark.parametrize("target", ["score=0.475", "same"])
def test_an_accuracy_within_luck_of_the_untrained_models_is_no_learning_where_chance_is_not_stated(tmp_path, target):
    """As seen of shuffled labels of two classes: a target of 0.487, which half of all seeds begin with."""
    coin = replace(LEARNER, start_loss=0.72, target_loss=0.69, noise=0.0)
    words = {"score": lambda loss: 0.45 + (0.72 - loss), "target": target}
    with pytest.raises(NothingMeasured, match=r"leave chance: .*a model before its first update has 0\.45"):
        ask(coin, 64, 0.1, tmp_path / "few", planted={"num_valid_samples": 100}, **words)
    answer, _ = ask(coin, 64, 0.1, tmp_path / "many", planted={"num_valid_samples": 100_000}, **words)
    assert answer.reached


def test_a_perplexity_at_chance_is_refused_however_far_the_loss_fell(tmp_path):
    words = {"score": lambda loss: 1 + loss, "planted": {"chance": 1.05, "goal": "min"}}
    with pytest.raises(NothingMeasured, match=r"did not leave chance: a model that learned nothing has 1\.05, and"):
        ask(LEARNER, 64, 0.1, tmp_path, target="score=1.12", **words)


def ramps_of(machine):
    return [request for request in machine.asked if isinstance(request, RampRate)]


def test_one_ramp_from_a_hundredth_of_the_jobs_own_rate_brackets_the_search(tmp_path):
    _, machine = ask(LEARNER, 64, 0.02, tmp_path)
    (ramp,) = ramps_of(machine)
    whole = RampRate(device="cpu", settings={})
    assert ramp.least_rate == pytest.approx(0.0002)
    per_decade = (ramp.num_steps - 1) / math.log10(ramp.most_rate / ramp.least_rate)
    assert per_decade == pytest.approx((whole.num_steps - 1) / math.log10(whole.most_rate / whole.least_rate), rel=0.02)


def test_a_ramp_that_blows_up_at_once_is_made_again_from_the_least_rate(tmp_path):
    answer, machine = ask(replace(LEARNER, diverges_above=0.2), 64, 30.0, tmp_path)
    assert [ramp.least_rate for ramp in ramps_of(machine)] == [0.3, 1e-6]
    assert abs(math.log(answer.learning_rate / LEARNER.best_rate_at(64))) < math.log(2)


def test_where_no_rate_blows_up_ramps_of_two_seeds_tell_where_the_loss_falls(tmp_path):
    answer, machine = ask(replace(LEARNER, diverges_above=math.inf, noise=0.0), 64, 0.02, tmp_path)
    assert [ramp.least_rate for ramp in ramps_of(machine)] == [pytest.approx(0.0002), pytest.approx(0.0002)]
    assert [ramp.settings["seed"] for ramp in ramps_of(machine)] == [0, 1]
    assert abs(math.log(answer.learning_rate / LEARNER.best_rate_at(64))) < math.log(2)


@pytest.mark.parametrize(("own_epochs", "num_whole"), [(1, 40), (2, 78), (8, 100)])
def test_a_ramp_of_a_job_of_few_updates_is_a_part_of_them(tmp_path, own_epochs, num_whole):
    _, machine = ask(LEARNER, 64, 1e-4, tmp_path, own_epochs=own_epochs)
    ramp = ramps_of(machine)[0]
    assert ramp.least_rate == pytest.approx(1e-6)
    assert ramp.num_steps == num_whole


class HarmedLearner(FakeLearner):
    """One whom high rates make worse than before any update, in longer runs than a ramp."""

    harm, num_harmed = 0.0105, 0

    def step(self, *, rate, batch_size):
        super().step(rate=rate, batch_size=batch_size)
        self.num_harmed += rate > self.harm

    def evaluate(self):
        return super().evaluate() + 0.05 * max(0, self.num_harmed - 80)


HARMED = HarmedLearner(s_min=120, b_crit=100, best_rate=0.01)
SHORT = {"target": "same", "warmup_steps": 150, "own_epochs": 5}


def test_all_that_is_left_of_a_budget_goes_to_a_lower_rate_where_the_one_ahead_is_worse_than_no_update(tmp_path):
    answer, machine = ask(HARMED, 64, 0.01, tmp_path, budget=12.0, **SHORT)
    first = next(request for request in machine.asked if isinstance(request, GrowTrunk) and request.to_step)
    assert first.settings["learning_rate"] > HARMED.harm > answer.learning_rate
    assert answer.reached


class AheadAtFirst(FakeLearner):
    """One whom rates above the best teach twice as fast at first, and hardly anything from then on."""

    def _gain(self, share):
        soon = 2.0 if self.num_updates < 90 else 0.05
        return super()._gain(share) * (soon if share > 1.5 else 1.0)


@pytest.mark.parametrize("budget", [8.0, 11.0])
def test_a_lower_rate_left_long_ago_is_looked_at_again_before_one_rate_takes_all_that_is_left(tmp_path, budget):
    """As seen of a character model: the rate that was ahead after 137 updates took 200 s and led nowhere."""
    learner = AheadAtFirst(s_min=300, b_crit=100, best_rate=0.1, diverges_above=2.0, rate_exponent=1.0)
    answer, _ = ask(learner, 64, 0.05, tmp_path, budget=budget)
    assert answer.learning_rate < 1.5 * learner.best_rate_at(64)


def test_rates_too_high_for_a_job_that_learns_by_its_own_are_called_that(tmp_path):
    with pytest.raises(NothingMeasured, match=r"rates are too high: the job learns by its own settings, at rate 0\.01"):
        ask(HARMED, 64, 0.01, tmp_path, budget=9.0, **SHORT)


@pytest.mark.parametrize(
    ("own_epochs", "seconds", "source"), [(40, 5, "forecast"), (100, 10, "forecast"), (400, 10, "begun")]
)
def test_a_forecast_needs_four_looks_for_which_the_own_run_may_take_half_of_the_budget(
    tmp_path, own_epochs, seconds, source
):
    answer, machine = ask(LEARNER, 64, 0.02, tmp_path, target="same", budget=20.0, own_epochs=own_epochs)
    (run,) = [request for request in machine.asked if isinstance(request, RunTrial)]
    assert run.max_seconds == seconds
    assert answer.target["from"] == source


class Slowing(FakeLearning):
    """A machine that becomes many times slower, as one does when other programs begin."""

    num_fast = 0

    def answer(self, request):
        result, seconds = super().answer(request)
        self.num_fast -= 1
        slow = 20.0 if self.num_fast < 0 else 1.0
        return replace(result, seconds=slow * result.seconds), slow * seconds


@pytest.mark.parametrize("num_fast", [5, 13, 24])
def test_a_machine_that_becomes_slower_ends_the_search_near_its_budget(tmp_path, num_fast):
    learning = Slowing(LEARNER)
    learning.num_fast = num_fast
    machine = FakeMachine(learning, baseline=Settings(batch_size=64, learning_rate=0.02, num_epochs=6))
    run = api.Run(out=tmp_path, engine=machine, host=plant_host(), clock=machine.clock)
    api.rate("digits", device="cpu", target="loss=0.12", budget=40.0, run=run)
    assert machine.clock() < 50.0
