"""The methods beside auto, on planted learners."""

import importlib.util
import math
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from legroom import api
from legroom.errors import NothingMeasured, UsageError
from legroom.job import Settings
from legroom.laws.rate_scaling import Recipe, scale
from legroom.questions.rate.ask import foresee
from legroom.questions.rate.carried import compared, cut_short, is_asked
from legroom.questions.rate.evidence import Point, Trunk
from legroom.questions.rate.fake import FakeLearner, FakeLearning
from legroom.questions.rate.ramps import read_ramp
from legroom.questions.rate.records import BranchBatch, Grown, GrowTrunk, RampRate, RateQuestion, RateRamp, RunTrial
from legroom.questions.rate.rules import Candidate
from legroom.questions.rate.view import rate_rows, section
from legroom.session import advise_again, read_records
from legroom.testing import FakeMachine, plant_host

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "rate_planted.py"
found = importlib.util.spec_from_file_location("rate_planted", SCRIPT)
planted = importlib.util.module_from_spec(found)
sys.modules["rate_planted"] = planted
found.loader.exec_module(planted)

LEARNER = FakeLearner(s_min=120, b_crit=100, best_rate=0.1, noise=0.01, diverges_above=1.0, rate_exponent=1.0)


def ask(out, learner=LEARNER, *, size=64, own=0.02, num_epochs=8, schedule="constant", asked=None, seed=0, **words):
    warmup = words.pop("warmup_steps", 0)
    pace = {"num_epochs": num_epochs, "schedule": schedule, "warmup_steps": warmup}
    baseline = Settings(batch_size=size, learning_rate=own, **pace)
    machine = FakeMachine(FakeLearning(learner), baseline=baseline)
    machine.asked = machine.asked if asked is None else asked
    resume = words.pop("resume", False)
    words = {"target": "loss=0.12", "budget": 1e6, **words}
    run = api.Run(out=out, engine=machine, host=plant_host(), clock=machine.clock, seed=seed, resume=resume)
    return api.rate("digits", device="cpu", run=run, **words), machine


def test_a_range_test_finds_the_rate_at_which_the_loss_falls_fastest(tmp_path):
    answer, machine = ask(tmp_path, method="range")
    assert abs(math.log(answer.learning_rate / LEARNER.best_rate_at(64))) < math.log(4)
    low, high = answer.range
    assert low <= answer.learning_rate <= high
    assert answer.num_trials == 3
    assert len([request for request in machine.asked if request.kind == "ramp_rate"]) == 3
    assert set(answer.sensitivity) <= {"half", "twice"}
    facts = {name for name, _, _ in rate_rows(answer)}
    assert answer.num_steps == answer.num_epochs == 0
    assert "slope" in facts
    assert not facts & {"sensitivity", "updates", "schedule", "warm-up"}
    assert advise_again(tmp_path, "rate") == answer


def test_the_slope_of_a_ramp_is_that_over_ln_rate():
    rates = [10 ** (-4 + 4 * place / 99) for place in range(100)]
    losses = [2.0 - 1.5 / (1 + (0.01 / rate) ** 2) for rate in rates]
    reading = read_ramp(RateRamp(rates=rates, losses=losses, diverged=False, num_samples=1, seconds=1.0))
    assert 0.005 < reading.steepest < 0.05
    assert reading.blown is None


def test_noise_before_the_loss_has_fallen_is_no_slope():
    rates = [10 ** (-6 + 7 * place / 99) for place in range(100)]
    noise = [0.3 * math.sin(7.3 * place) + (0.9 if place in (10, 11, 12) else 0.0) for place in range(100)]
    losses = [2.0 - 0.4 / (1 + (0.01 / rate)) + more for rate, more in zip(rates, noise, strict=True)]
    reading = read_ramp(RateRamp(rates=rates, losses=losses, diverged=False, num_samples=1, seconds=1.0))
    assert 0.001 < reading.steepest < 1.0


class AnotherRateEachSeed(FakeLearner):
    def best_rate_at(self, batch_size):
        return super().best_rate_at(batch_size) * 100.0 ** (1 - self.seed)


def test_seeds_that_disagree_by_more_than_ten_times_tell_no_rate(tmp_path):
    learner = AnotherRateEachSeed(s_min=10, b_crit=100, best_rate=0.003)
    with pytest.raises(NothingMeasured, match=r"does not tell: .* more than a factor of 10 from seed to seed"):
        ask(tmp_path, learner, method="range")


def test_a_ramp_whose_loss_never_falls_is_refused(tmp_path):
    with pytest.raises(NothingMeasured, match="did not leave chance at any rate between"):
        ask(tmp_path, replace(LEARNER, s_min=1e12, diverges_above=math.inf, noise=0.0), method="range")


def test_greedy_tries_decades_and_then_multiples_until_the_score_falls(tmp_path):
    answer, machine = ask(tmp_path, method="greedy", batch_size=64)
    rates = [r.settings["learning_rate"] for r in machine.asked if isinstance(r, RunTrial)]
    assert rates[:5] == [1e-5, 1e-4, 1e-3, 1e-2, 1e-1]
    assert rates[5] == 2 * max(rates[:5], key=lambda rate: -abs(math.log(rate / answer.learning_rate)))
    values = [trial["value"] for trial in answer.trials]
    assert values[-1] > min(values)
    assert answer.best_value == min(values)
    assert advise_again(tmp_path, "rate") == answer


def test_greedy_without_a_size_takes_the_first_above_90_percent_of_the_best_utilisation(tmp_path):
    answer, _ = ask(tmp_path, method="greedy")
    sizes = [trial for trial in answer.trials if "utilisation" in trial]
    best = max(trial["utilisation"] for trial in sizes)
    assert answer.batch_size == next(t["batch_size"] for t in sizes if t["utilisation"] > 0.9 * best)
    assert "by throughput it would be 2,048" in answer.notes[0]


@pytest.mark.parametrize("rule", ["linear", "sqrt", "legw"])
def test_a_rule_carries_rate_and_warmup_as_its_law_says(tmp_path, rule):
    answer, _ = ask(tmp_path, method="transfer", batch_size=512, rule=rule, own=0.05)
    carried = scale(rule, Recipe(batch_size=64, learning_rate=0.05, warmup_epochs=1.0), 512)
    assert answer.learning_rate == pytest.approx(carried.learning_rate)
    assert set(answer.sensitivity) == {"half", "twice"}


def samples_trained_at(request):
    """Samples of the updates that a request makes, besides those of the trunk that it leaves."""
    if isinstance(request, BranchBatch):
        return request.update_size
    makes_updates = isinstance(request, RampRate | RunTrial) or (isinstance(request, GrowTrunk) and request.to_step)
    return request.settings["batch_size"] if makes_updates else 0


@pytest.mark.parametrize("size", [16, 256, 1024])
@pytest.mark.parametrize("target", ["loss=0.12", "same"])
def test_a_rate_is_carried_to_another_batch_size_without_an_update_there(tmp_path, size, target):
    answer, machine = ask(tmp_path, method="transfer", batch_size=size, own=LEARNER.best_rate_at(64), target=target)
    assert size not in {samples_trained_at(request) for request in machine.asked}
    assert abs(math.log(answer.learning_rate / LEARNER.best_rate_at(size))) < math.log(2)
    assert answer.baseline_steps == round(8 * (10_000 // 64) * 64 / size)


def test_carried_rates_are_within_half_as_much_again_in_nine_of_ten_cases(tmp_path):
    """Learners of benchmarks/rate_planted.py, from the best rate of their batch to a quarter and to 4 times of it."""
    errors = []
    for seed in range(12):
        learner, size, _ = planted.plant(seed)
        own, num_epochs = learner.best_rate_at(size), max(1, round(3 * learner.updates_needed(size) * size / 10_000))
        for other in (size // 4, 4 * size):
            out, words = tmp_path / f"{seed}-{other}", {"method": "transfer", "batch_size": other}
            answer, _ = ask(out, learner, size=size, own=own, num_epochs=num_epochs, **words)
            errors.append(abs(math.log(answer.learning_rate / learner.best_rate_at(other))))
    assert sum(error < math.log(1.5) for error in errors) >= 0.9 * len(errors)


def test_the_measured_rule_levels_off_beyond_the_critical_batch(tmp_path):
    known = LEARNER.best_rate_at(64)
    answer, _ = ask(tmp_path, method="transfer", batch_size=1024, own=known)
    truth = LEARNER.best_rate_at(1024)
    assert abs(math.log(answer.learning_rate / truth)) < math.log(1.5)
    assert answer.num_steps == pytest.approx(LEARNER.updates_needed(1024), rel=0.4)
    assert advise_again(tmp_path, "rate") == answer


@pytest.mark.parametrize(("warmup_steps", "told"), [(0, "extrapolated"), (150, "more than")])
def test_updates_of_a_rate_whose_known_batch_missed_the_target_are_extrapolated_or_none(tmp_path, warmup_steps, told):
    words = {"method": "transfer", "own": 0.1, "target": "loss=0.001", "budget": 9.0, "warmup_steps": warmup_steps}
    answer, _ = ask(tmp_path, batch_size=128, **words)
    known, _ = ask(tmp_path / "known", batch_size=64, **words)
    facts = {name: value for name, value, _ in rate_rows(answer)}
    assert not answer.reached
    assert told in facts["updates"]
    assert any("did not reach loss 0.001 at batches of 64; the best" in note for note in answer.notes)
    assert not any("The budget lasted for" in note for note in answer.notes)
    if warmup_steps:
        assert answer.extrapolated_steps is None
        assert "the known batch did not reach the target either" in answer.not_measured[-1]
        assert "should reach" not in section(answer).summary
    else:
        assert answer.extrapolated_steps[0] > 0.4 * known.extrapolated_steps[0]
        assert answer.num_steps == round(answer.extrapolated_steps[0])


def test_updates_that_were_run_and_those_that_the_target_takes_are_told_apart(tmp_path):
    learner = replace(LEARNER, noise=0.0)
    answer, _ = ask(tmp_path, learner, target="loss=0.02", budget=6.5)
    facts = {name: (value, remark) for name, value, remark in rate_rows(answer)}
    assert "extrapolated" in facts["updates"][0]
    low, high = answer.extrapolated_steps
    told = f"about {low:,.0f} updates" if low == high else f"takes {low:,.0f} to "
    assert any(told in note for note in answer.notes)
    assert f"{answer.num_steps:,} were run, {answer.num_epochs:.3g} epochs" in facts["updates"][1]
    assert facts["learning rate"][1] == answer.recommendations[0].because


def test_rules_are_run_side_by_side_over_as_many_samples_and_the_winner_is_named(tmp_path):
    answer, machine = ask(tmp_path, method="transfer", batch_size=512, compare_rules=True, own=LEARNER.best_rate_at(64))
    equal = [trial for trial in answer.trials if "twice" not in trial["rule"]]
    names = " ".join(trial["rule"] for trial in equal)
    assert all(name in names for name in ("measured", "linear", "sqrt", "legw", "LARS", "LAMB"))
    assert len({trial["num_samples"] for trial in equal if not trial["diverged"]}) == 1
    assert any("twice as long" in trial["rule"] for trial in answer.trials)
    best = min((trial for trial in equal if trial["value"] is not None), key=lambda trial: trial["value"])
    assert answer.learning_rate == best["learning_rate"]
    assert {request.solver for request in machine.asked if hasattr(request, "solver")} == {"own", "lars", "lamb"}
    assert advise_again(tmp_path, "rate") == answer


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ({"method": "transfer"}, "Name it with --batch-size"),
        ({"rule": "linear"}, "belong to --method transfer"),
        ({"from_rate": 0.1}, "belong to --method transfer"),
        ({"method": "transfer", "batch_size": 128, "rule": "guess"}, "There is no rule 'guess'"),
        ({"method": "transfer", "batch_size": 128, "from_rate": -1.0}, "--from-rate is -1"),
        ({"method": "transfer", "batch_size": 128, "rule": "adam"}, "Adam's rule is for Adam"),
    ],
)
def test_wrong_words_of_transfer_are_refused(tmp_path, words, sentence):
    with pytest.raises(UsageError, match=sentence):
        ask(tmp_path, **words)


@pytest.mark.parametrize("method", ["auto", "range", "greedy", "transfer"])
def test_a_dry_run_lists_what_each_method_runs(tmp_path, method):
    foreseen = foresee("digits", method=method, budget=60.0, run=api.Run(out=tmp_path, host=plant_host()))
    assert foreseen.probes[0].what == "read the job in a child process"
    assert sum(probe.seconds[1] for probe in foreseen.probes) < 150


def test_where_no_decade_gives_a_number_greedy_tries_no_multiples(tmp_path):
    learner, asked = replace(LEARNER, diverges_above=1e-30), []
    with pytest.raises(NothingMeasured, match=r"No run gave a loss that is a number, at rates from 1e-05 to 0\.1"):
        ask(tmp_path, learner, method="greedy", batch_size=64, asked=asked)
    assert sum(isinstance(request, RunTrial) for request in asked) == 5


def test_the_epochs_of_greedy_end_with_their_part_of_the_budget_and_that_is_told(tmp_path):
    answer, machine = ask(tmp_path, method="greedy", size=4, budget=20.0)
    epochs = [r for r in machine.asked if isinstance(r, RunTrial) and r.settings["num_epochs"] == 1]
    assert {request.max_seconds for request in epochs} == {1.0}
    assert any("Epochs at batches of 4, 8, 16, 32 ended with their part of the budget" in note for note in answer.notes)


def test_runs_of_greedy_that_end_before_an_epoch_are_evaluated_and_no_rate_is_begun_beyond_the_budget(tmp_path):
    answer, machine = ask(tmp_path, method="greedy", size=4, own=0.1, batch_size=4, budget=5.0)
    notes = " ".join(answer.notes)
    assert answer.best_value < 2.3
    assert machine.clock() < 7.0
    assert "ended with their part of the budget, not by themselves: an epoch takes 12.5 s" in notes
    assert "The budget was over before rates 0.01, 0.1 were tried. Raise --budget" in notes


class TenTimesSlower(FakeLearning):
    def answer(self, request):
        result, seconds = super().answer(request)
        return replace(result, seconds=10 * result.seconds), 10 * seconds


def test_a_budget_that_lasts_for_one_rate_is_refused_by_greedy_with_what_an_epoch_takes(tmp_path):
    baseline = Settings(batch_size=64, learning_rate=0.02, num_epochs=8)
    machine = FakeMachine(TenTimesSlower(LEARNER), baseline=baseline)
    run = api.Run(out=tmp_path, engine=machine, host=plant_host(), clock=machine.clock)
    with pytest.raises(NothingMeasured, match=r"for one rate alone, .*: an epoch takes 7\.8 s\. Raise --budget"):
        api.rate("digits", device="cpu", method="greedy", batch_size=64, budget=5.0, run=run)


def test_a_budget_that_ends_within_a_comparison_cuts_all_ways_alike(tmp_path):
    words = {"method": "transfer", "batch_size": 16, "compare_rules": True, "own": LEARNER.best_rate_at(64)}
    answer, _ = ask(tmp_path, **words, budget=12.0)
    assert {trial["rule"] for trial in answer.trials} == {"measured", "linear", "sqrt", "legw", "LARS", "LAMB"}
    assert len({trial["num_samples"] for trial in answer.trials if not trial["diverged"]}) == 1


def way(name, *samples, diverged_at=None, solver="own"):
    points = [Point(to_step=n, num_steps=n, num_samples=n, value=1 / n) for n in samples]
    trunk = Trunk(learning_rate=0.1, batch_size=1, seed=0, points=points, diverged_at=diverged_at)
    return Candidate(name=name, learning_rate=0.1, warmup_steps=0, solver=solver), trunk


def test_only_ways_that_saw_the_most_samples_and_did_not_diverge_are_compared():
    found = [way("linear", 10, 20), way("sqrt", 10), way("legw", 10, 20, diverged_at=40), way("LARS", 10, 20)]
    once, equal = compared([*found, way("linear, twice as long", 40)])
    assert [each.name for each, _ in equal] == ["linear", "LARS"]
    assert [each.name for each, _ in once] == ["linear", "sqrt", "legw", "LARS"]
    assert cut_short(once, equal) == ["Cut short by the budget, and not compared: sqrt"]
    assert "No way to train was compared: all diverged" in cut_short(once, [])[0]


def test_runs_of_another_seed_or_part_of_the_data_are_not_compared():
    settings = {"batch_size": 512, "accumulation_steps": 1, "learning_rate": 0.1, "seed": 1, "warmup_steps": 0}
    words = {"target_name": "loss", "target": 0.12, "goal": "min", "optimizer": "sgd"}
    question = RateQuestion(device="cpu", settings=settings, **words)
    mine = replace(question.trunk(0.2, 50, seed=1, warmup_steps=5, cooldown=0.2), solver="lars")
    assert is_asked(mine, question)
    assert not is_asked(replace(mine, settings={**mine.settings, "seed": 0}), question)
    assert not is_asked(replace(mine, fraction=0.5), question)


@pytest.mark.parametrize("batch_size", [64, 128])
def test_what_a_forecast_cost_is_counted_at_another_batch_size_too(tmp_path, batch_size):
    words = {"target": "same", "budget": 40.0, "num_epochs": 80, "own": 0.1, "schedule": "cosine"}
    answer, machine = ask(tmp_path, **words, batch_size=batch_size)
    assert answer.target["from"] == "forecast"
    assert any(isinstance(r, GrowTrunk) and r.settings["batch_size"] == 64 and r.to_step for r in machine.asked)
    results = [e.result for e in read_records(tmp_path, "rate").entries if e.request.kind != "describe"]
    cost = [each.paid_samples if isinstance(each, Grown) else each.num_samples for each in results]
    assert answer.num_samples == sum(cost)
