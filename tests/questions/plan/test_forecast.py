"""The plan's batch, rate and seconds to the target, against machines on which all three are known."""

import io
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import TypeAdapter
from rich.console import Console

from legroom import api
from legroom.errors import NothingMeasured, UsageError
from legroom.job import Settings
from legroom.laws import time_to_target as law
from legroom.logbook import read_records
from legroom.plan_file import read_plan
from legroom.questions.memory.records import StepPeaks
from legroom.questions.plan.candidates import MISSED, Learned, slowest_steps
from legroom.questions.plan.choice import Candidate, cheapest, cost_of
from legroom.questions.plan.factors import pace_of
from legroom.questions.plan.forecast import forecast_of
from legroom.questions.plan.recommend import learned_items, nearest
from legroom.questions.plan.records import OwnRun, PlanQuestion
from legroom.questions.plan.seeking import whole_run_seconds
from legroom.questions.plan.tried import own_steps
from legroom.questions.plan.view import print_plan, section, summary
from legroom.questions.plan.what_if import what_if_of
from legroom.questions.rate.records import GrowTrunk, RampRate
from legroom.session import advise_again
from legroom.testing import plant_host
from legroom.training.records import Train


def seconds_needed(planted, size):
    """The planted truth at the best rate, evaluations left out."""
    return planted.LEARNER.updates_needed(size) * planted.step_seconds(size)


def question_of(folder):
    """What the plan in the folder was made of."""
    return TypeAdapter(PlanQuestion).validate_python(dict(read_records(folder, "plan").head.question))


def test_the_forecast_holds_the_planted_seconds_and_the_batch_is_near_the_best(planted, tmp_path):
    answer = planted.ask(tmp_path, planted.plant())
    best = min(seconds_needed(planted, size) for size in range(8, 1000))
    assert seconds_needed(planted, answer.batch_size) < 1.2 * best
    low, high = answer.predicted_range
    # The learner needs LEARNER's updates at a rate that does not cool down; a cooled run takes a tenth more.
    assert low < 1.1 * seconds_needed(planted, answer.batch_size) < high
    assert answer.learning_rate == pytest.approx(planted.LEARNER.best_rate_at(answer.batch_size), rel=0.5)
    assert answer.cooldown_steps > 0
    assert answer.target == "loss=0.12"


def test_the_answer_opens_with_one_sentence_and_tells_before_and_after(planted, tmp_path):
    answer = planted.ask(tmp_path, planted.plant(own=Settings(batch_size=32, learning_rate=0.02, num_epochs=20)))
    assert answer.baseline_from == "measured"
    said = io.StringIO()
    print_plan(Console(file=said, width=300), answer)
    lines = said.getvalue().splitlines()
    assert lines[2] == summary(answer)
    assert f"Batch {answer.batch_size:,}, rate {answer.learning_rate:.3g}" in lines[2]
    assert "loss 0.12 in about" in lines[2]
    assert " instead of " in lines[2]
    assert "time to target" in said.getvalue()


def test_a_target_of_many_digits_is_kept_whole_and_told_in_few(planted, tmp_path):
    answer = planted.ask(tmp_path, planted.plant(), target=f"loss={43 / 360!r}")
    assert answer.target == read_plan(tmp_path / "plan.toml").target == f"loss={43 / 360!r}"
    assert "loss 0.1194 in about" in summary(answer)


def test_the_laws_give_the_forecast_again_from_the_factors(planted, tmp_path):
    answer = planted.ask(tmp_path, planted.plant())
    found = answer.factors
    load = law.load_seconds(
        found["batch_size"],
        found["num_workers"],
        *(found[name] for name in ("inline_seconds", "worker_seconds", "contention", "coherence", "core_seconds")),
    )
    compute = law.compute_seconds(found["batch_size"], found["sizes"], found["seconds"])
    step = law.step_seconds(
        found["num_passes"], law.pass_seconds(compute, load, found["num_workers"]), found["update"], 0.0
    )
    size = law.update_size(found["batch_size"], found["num_passes"], found["num_devices"])
    steps = law.steps_to_target(size, found["least_steps"], found["critical_batch_size"] or 0.0)
    seconds = law.seconds_to_target(steps, step, found["num_evaluations"], found["evaluation"])
    assert seconds == pytest.approx(answer.predicted_seconds)
    spread = law.joined_spread(found["steps_spread"], found["seconds_spread"])
    assert answer.predicted_range == pytest.approx((seconds / spread, seconds * spread))


def test_the_plan_file_holds_target_length_forecast_and_cost(planted, tmp_path):
    answer = planted.ask(tmp_path, planted.plant())
    read = read_plan(Path(answer.plan_path))
    assert (read.target, read.predicted_seconds) == ("loss=0.12", answer.predicted_seconds)
    assert read.value("num_steps") == answer.num_steps
    assert read.cost_seconds == pytest.approx(sum(answer.spent.values()))
    assert read.settings.num_epochs == -(-answer.num_steps * answer.batch_size // planted.NUM_SAMPLES)


def test_a_plan_that_is_not_surely_better_keeps_the_jobs_own_settings(planted, tmp_path):
    own = Settings(batch_size=128, learning_rate=planted.LEARNER.best_rate_at(128), num_epochs=20)
    machine = planted.plant(own=own)
    answer = planted.ask(tmp_path, machine)
    assert answer.kept
    proved = [request.batch_size for request in machine.asked if isinstance(request, StepPeaks)]
    assert max(proved) == 128, "memory is proved for what will run, not for what was considered"
    assert (answer.batch_size, answer.learning_rate, answer.schedule) == (128, own.learning_rate, "constant")
    assert answer.predicted_seconds == answer.baseline_seconds
    assert any("not surely less" in note for note in answer.notes)
    assert summary(answer).startswith("Keep the job's own settings")
    assert summary(replace(answer, num_workers=2)).startswith("Keep the job's own batch, rate and length")
    assert what_if_of(answer).mark == "as recommended", "the controls begin at the own settings"


def test_a_target_that_nothing_reaches_leaves_the_nearest_trial_and_says_what_is_missing(planted, tmp_path):
    answer = planted.ask(tmp_path, planted.plant(), target="loss=1e-30", budget=100.0)
    assert answer.predicted_seconds is None
    assert any("No rate reached loss 1e-30" in sentence and "--budget" in sentence for sentence in answer.missing)
    assert answer.learning_rate != planted.OWN.learning_rate
    because = next(item.because for item in answer.recommendations if item.name == "batch_size")
    assert "no trial reached loss 1e-30; this one came nearest, " in because


def test_where_the_jobs_own_run_came_nearest_to_a_target_that_nothing_reaches_its_settings_stay(planted, tmp_path):
    """A trial that was worse is no reason to change them."""
    planted.ask(tmp_path, planted.plant(), target="loss=1e-30", budget=100.0)
    question = TypeAdapter(PlanQuestion).validate_python(read_records(tmp_path, "plan").head.question)
    best = min(one.best_value for one in question.rates)
    run = OwnRun(
        batch_size=32,
        num_workers=0,
        num_steps=900,
        step_seconds=0.01,
        wait_seconds=None,
        evaluation_seconds=0.01,
        steps_to_target=None,
    )
    assert nearest(question) is not None
    assert nearest(replace(question, runs=[replace(run, value=2 * best)])) is not None
    assert nearest(replace(question, runs=[replace(run, value=best / 2)])) is None


def test_a_run_that_hardly_began_is_no_target(planted, tmp_path):
    own = Settings(batch_size=32, learning_rate=0.003, num_epochs=2000)
    answer = planted.ask(tmp_path, planted.plant(own=own), target="same", budget=21.0)
    assert answer.predicted_seconds is None
    assert (answer.batch_size, answer.learning_rate, answer.num_epochs) == (32, 0.003, 2000)
    assert answer.missing


def test_a_run_of_half_a_minute_is_made_to_its_end_for_the_target(planted, tmp_path):
    answer = planted.ask(tmp_path, planted.plant(own=Settings(batch_size=32, learning_rate=0.02, num_epochs=8)),
                         target="same", budget=300.0)  # fmt: skip
    assert answer.baseline_from == "measured"
    assert not any("forecast of what" in note for note in answer.notes)


def test_a_rate_is_sought_on_while_the_budget_lasts(planted, tmp_path):
    learner = replace(planted.LEARNER, s_min=4000)
    own = Settings(batch_size=32, learning_rate=0.003, num_epochs=20)
    answer = planted.ask(tmp_path, planted.plant(learner=learner, own=own), batch_size=128, budget=2000.0)
    assert "rate again" in answer.spent
    assert answer.missing == []
    assert answer.predicted_seconds is not None


def test_the_price_is_told_as_money(planted, tmp_path):
    answer = planted.ask(tmp_path, planted.plant(), price=3.6)
    assert answer.predicted_cost == pytest.approx(answer.predicted_seconds * 0.001)


def test_a_batch_that_was_named_is_kept(planted, tmp_path):
    answer = planted.ask(tmp_path, planted.plant(), batch_size=64)
    assert answer.batch_size == 64
    assert "as asked" in next(item.because for item in answer.recommendations if item.name == "batch_size")


def test_fastest_and_frugal_disagree_where_a_larger_batch_wastes_the_device(planted, tmp_path):
    """Steps take the same time up to 256 samples, and the device works in proportion to them."""
    machine = {"seconds": lambda size: max(0.02, 0.02 * size / 256), "utilisation": lambda size: min(1.0, size / 256)}
    machine["own"] = Settings(batch_size=128, learning_rate=0.01, num_epochs=60)
    fastest = planted.ask(tmp_path / "fastest", planted.plant(**machine))
    frugal = planted.ask(tmp_path / "frugal", planted.plant(**machine), goal="frugal")
    assert frugal.batch_size < fastest.batch_size
    assert frugal.predicted_seconds > fastest.predicted_seconds
    because = {answer.goal: answer.recommendations[0].because for answer in (fastest, frugal)}
    assert "soonest" in because["fastest"]
    assert "least energy" in because["frugal"]


def test_fastest_takes_devices_that_cheapest_leaves():
    ways = [
        Candidate(batch_size=64, num_steps=steps, step_seconds=step, num_evaluations=1, evaluation=0.1, num_devices=num)
        for num, steps, step in ((1, 1000, 0.1), (4, 600, 0.11))
    ]
    assert cheapest(ways, cost_of("fastest", 2.0, None), [64]).num_devices == 4
    assert cheapest(ways, cost_of("cheapest", 2.0, None), [64]).num_devices == 1


def test_advice_is_given_again_from_the_logbook(planted, tmp_path):
    answer = planted.ask(tmp_path, planted.plant())
    assert advise_again(tmp_path, "plan") == answer


def test_what_was_asked_before_is_not_asked_again(planted, tmp_path):
    first = planted.ask(tmp_path, planted.plant())
    machine = planted.plant()
    again = planted.ask(tmp_path, machine)
    assert not [request for request in machine.asked if isinstance(request, GrowTrunk | RampRate)]
    assert again.settings == first.settings


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({"goal": "best"}, "There is no goal 'best'. Known: fastest, cheapest, frugal"),
        ({"target": "accuracy=1"}, "The target 'accuracy=1' cannot be read. Write score=0.97, loss=0.1 or same"),
        ({"budget": 3.0}, "--budget is 3 s; it must be at least 20 s"),
        ({"price": -1.0}, "--price is -1; it must be at least 0"),
        ({"batch_size": 0}, "--batch-size is 0; it must be at least 1"),
        ({"batch_size": 10_001}, "10,001 is more than the 10,000 samples"),
        ({"target": "score=0.9"}, "This job has no score"),
        ({"precision": "int3"}, "There is no precision 'int3'"),
    ],
)
def test_wrong_words_are_refused(planted, tmp_path, words, told):
    with pytest.raises(UsageError, match=told):
        planted.ask(tmp_path, planted.plant(), **words)


def test_what_each_question_found_is_told_at_once_and_beside_its_seconds(planted, tmp_path):
    told, machine = [], planted.plant()
    answer = planted.ask(tmp_path, machine, told=told.append)
    assert [sentence.partition(",")[0] for sentence in told] == list(answer.spent)
    assert list(answer.found) == list(answer.spent)
    assert f"{answer.learning_rate:.3g} reaches loss 0.12 in" in answer.found[_last_rate(answer)]
    assert "to the target in" in answer.found["rehearsal"]
    said = io.StringIO()
    print_plan(Console(file=said, width=1000), answer)
    table = next(table for table in section(answer).tables if table.name == "plan-spent")
    assert [row[2] for row in table.rows] == list(answer.found.values())
    assert all(words in said.getvalue() for words in answer.found.values())


def _last_rate(answer):
    return "rate again" if "rate again" in answer.found else "rate"


def test_a_fresh_plan_runs_the_jobs_own_settings_and_seeks_the_rate_anew(planted, tmp_path):
    planted.ask(tmp_path, planted.plant())
    machine = planted.plant()
    planted.ask(tmp_path, machine, fresh=True)
    assert [request for request in machine.asked if isinstance(request, GrowTrunk)]
    own = [one for one in machine.asked if isinstance(one, Train) and one.target and one.num_steps is None]
    assert own


def test_a_rate_that_was_sought_on_a_part_of_the_data_is_not_taken_for_the_plans_own(planted, tmp_path):
    machine = planted.plant()
    run = api.Run(out=tmp_path, engine=machine, host=plant_host(), clock=machine.clock)
    found = api.rate("digits", device="cpu", target="loss=0.12", budget=300.0, fraction=0.2, run=run)
    assert found.reached
    answer = planted.ask(tmp_path, planted.plant())
    assert "rate" in answer.spent
    assert "rate, before" not in answer.before


@pytest.mark.parametrize("counted", [True, False])
def test_where_nothing_counts_energy_a_frugal_plan_says_so(planted, tmp_path, counted):
    utilisation = (lambda size: 0.5) if counted else None
    answer = planted.ask(tmp_path, planted.plant(utilisation=utilisation), num_gpus=1, goal="frugal")
    because = next(item.because for item in answer.recommendations if item.name == "batch_size")
    assert ("with the least energy" in because) == counted
    assert any("energy is unknown" in sentence for sentence in answer.missing) != counted


def test_a_question_that_found_nothing_was_paid_for_all_the_same(planted, tmp_path):
    machine = planted.plant()
    whole = machine.answer

    def answer(request):
        found = whole(request)
        if isinstance(request, RampRate):
            machine.clock.advance(5.0)
            raise NothingMeasured("The loss did not leave chance. Raise --budget")
        return found

    machine.answer = answer
    found = planted.ask(tmp_path, machine)
    assert found.spent["rate"] >= 5.0
    assert found.found["rate"] == "nothing: The loss did not leave chance"
    assert found.cost_seconds == pytest.approx(machine.clock(), rel=0.1)


def test_a_rate_that_is_moved_to_another_batch_warms_up_over_as_many_samples(planted, tmp_path):
    planted.ask(
        tmp_path, planted.plant(own=Settings(batch_size=128, learning_rate=0.003, num_epochs=20, warmup_steps=80))
    )
    question = question_of(tmp_path)
    found = forecast_of(question)
    assert found is not None
    near = found.learned.near(512)
    moved = replace(found, chosen=replace(found.chosen, batch_size=4 * near.batch_size))
    steps = {item.name: item.value for item in learned_items(question, moved, 200)}
    assert steps["warmup_steps"] == near.warmup_steps // 4
    short = {item.name: item.value for item in learned_items(question, moved, 12)}
    assert short["warmup_steps"] + short["cooldown_steps"] <= 12


def test_where_only_an_edge_of_the_critical_batch_size_is_known_other_batches_are_weighed_by_it(planted, tmp_path):
    planted.ask(tmp_path, planted.plant())
    question = question_of(tmp_path)
    rates = [replace(one, critical_batch_size=None, critical_range=None) for one in question.rates]
    unknown = Learned.of(replace(question, rates=rates))
    assert (unknown.critical, unknown.steps(17)) == (None, None)
    edged = Learned.of(replace(question, rates=[replace(one, critical_edge=4000.0) for one in rates]))
    assert (edged.critical, edged.critical_range) == (4000.0, (1000.0, 16000.0))
    near = edged.near(17)
    assert edged.steps(17) == pytest.approx(
        slowest_steps(near) * (1 + 4000 / 17) / (1 + 4000 / near.batch_size), rel=1e-9
    )
    failed = replace(rates[0], batch_size=17, reached=False)
    late = Learned.of(replace(question, rates=[*[replace(one, critical_edge=4000.0) for one in rates], failed]))
    assert late.steps(17) == pytest.approx(MISSED * edged.steps(17)), "a search there found no rate"


def test_a_forecast_of_the_jobs_own_run_is_doubted_more_than_one_that_was_measured(planted, tmp_path):
    planted.ask(tmp_path, planted.plant(own=Settings(batch_size=32, learning_rate=0.02, num_epochs=20)), target="same")
    question = question_of(tmp_path)
    untried = replace(question, rehearsals=[])
    share = 1.4 * forecast_of(untried).chosen.seconds / forecast_of(untried).baseline.seconds
    num_epochs = round(share * question.baseline["num_epochs"])
    question = replace(untried, baseline={**question.baseline, "num_epochs": num_epochs})
    runs = [replace(run, steps_to_target=question.own_steps) for run in question.runs]
    cut_short = [replace(run, steps_to_target=None) for run in runs]
    rates = [replace(one, target={**one.target, "from": "forecast"}) for one in question.rates]
    measured = forecast_of(replace(question, runs=runs))
    foretold = forecast_of(replace(question, runs=cut_short, rates=rates))
    assert measured.baseline.seconds == pytest.approx(foretold.baseline.seconds, rel=0.01)
    assert (measured.baseline.source, measured.is_better) == ("measured", True)
    assert (foretold.baseline.source, foretold.is_better) == ("forecast", False)


def test_a_named_batch_whose_runs_miss_the_target_is_kept_without_a_forecast(planted, tmp_path):
    machine = planted.plant()
    train = machine.runs.train
    machine.runs.train = lambda request: replace(train(request), stopped_because="finished")
    answer = planted.ask(tmp_path, machine, batch_size=128)
    assert (answer.batch_size, answer.predicted_seconds) == (128, None)
    assert answer.missing[0].startswith("The plan is what was asked for, but most runs that tried it out missed")
    assert "no forecast" in summary(answer)


def test_no_trial_takes_the_place_of_own_settings_that_reach_the_target(planted, tmp_path):
    machine = planted.plant(own=Settings(batch_size=32, learning_rate=0.02, num_epochs=20))
    learning = machine.others[0].answer

    def stuck(request):
        found, seconds = learning(request)
        return (replace(found, loss=max(0.5, found.loss)) if isinstance(request, GrowTrunk) else found), seconds

    machine.others[0].answer = stuck
    answer = planted.ask(tmp_path, machine)
    assert answer.baseline_from == "measured"
    assert (answer.batch_size, answer.learning_rate) == (32, 0.02)


def test_a_batch_without_a_rate_of_its_own_is_doubted_as_far_as_the_critical_batch_size(planted, tmp_path):
    planted.ask(tmp_path, planted.plant(own=Settings(batch_size=32, learning_rate=0.02, num_epochs=20)))
    question = replace(question_of(tmp_path), rehearsals=[])
    rate = replace(question.rates[0], critical_batch_size=1000.0)
    sure, unsure = (
        forecast_of(replace(question, rates=[replace(rate, critical_range=span)]))
        for span in ((990.0, 1010.0), (30.0, 30_000.0))
    )
    assert sure.chosen.size == unsure.chosen.size != rate.batch_size
    ratio = 1.25 * sure.chosen.seconds / sure.baseline.seconds
    runs = [replace(run, steps_to_target=round(ratio * run.steps_to_target)) for run in question.runs]
    sure, unsure = (
        forecast_of(replace(question, runs=runs, rates=[replace(rate, critical_range=span)]))
        for span in ((990.0, 1010.0), (30.0, 30_000.0))
    )
    assert (sure.is_better, unsure.is_better) == (True, False)


def test_trials_whose_loss_was_no_number_somewhere_do_not_stop_a_forecast(planted, tmp_path):
    planted.ask(tmp_path, planted.plant())
    question = question_of(tmp_path)
    rate = question.rates[0]
    curves = [{**curve, "value": [None, *curve["value"][1:]]} for curve in rate.curves]
    runs = [replace(run, steps_to_target=None, ended=False, value=1.0) for run in question.runs]
    found = forecast_of(replace(question, rates=[replace(rate, curves=curves), *question.rates[1:]], runs=runs))
    assert found.baseline.source == "forecast"


def test_own_runs_that_were_cut_short_say_nothing_of_the_target_where_others_do(planted, tmp_path):
    planted.ask(tmp_path, planted.plant(own=Settings(batch_size=32, learning_rate=0.02, num_epochs=20)))
    question = question_of(tmp_path)
    run = replace(question.runs[0], steps_to_target=1000)
    cut, missed = (replace(run, steps_to_target=None, num_steps=200, ended=ended) for ended in (False, True))
    assert own_steps(replace(question, runs=[run, cut])) == [1000]
    assert own_steps(replace(question, runs=[run, missed])) == [1000, 300]
    assert own_steps(replace(question, runs=[cut])) == [300]


def test_a_run_that_was_cut_short_is_beaten_by_one_that_got_there(planted, tmp_path):
    planted.ask(tmp_path, planted.plant(own=Settings(batch_size=32, learning_rate=0.02, num_epochs=20)))
    question = question_of(tmp_path)
    tried = forecast_of(question)
    num_steps = round(1.05 * tried.chosen.seconds / tried.baseline.candidate.step_seconds)
    runs = [replace(run, steps_to_target=None, num_steps=num_steps, ended=False) for run in question.runs]
    bare = [replace(one, curves=[]) for one in question.rates]
    found = forecast_of(replace(question, runs=runs, rates=bare))
    assert (found.baseline.source, found.is_better) == ("at least", True)


def test_the_length_of_a_run_by_own_settings_counts_its_passes_and_workers(planted, tmp_path):
    planted.ask(tmp_path, planted.plant())
    question = question_of(tmp_path)
    whole = whole_run_seconds(question)
    passes = replace(question, baseline={**question.baseline, "batch_size": 8, "accumulation_steps": 4})
    assert passes.own_steps == question.own_steps
    pace = pace_of(question)
    assert whole_run_seconds(passes) == pytest.approx(question.own_steps * pace.step(8, 0, 4))
    assert whole_run_seconds(passes) > whole


@pytest.mark.parametrize("normalises", [True, False])
def test_a_plan_for_another_batch_says_how_many_samples_batchnorm_sees(planted, tmp_path, normalises):
    answer = planted.ask(tmp_path, planted.plant(normalises_by_batch=normalises))
    assert answer.batch_size != planted.OWN.batch_size
    told = [note for note in answer.notes if note.startswith("BatchNorm would see")]
    assert [f"{answer.batch_size:,} samples instead of 32" in note for note in told] == [True] * normalises
