"""`legroom size` against trials whose law is planted."""

import math
from dataclasses import replace

import pytest

from legroom import api
from legroom.errors import NothingMeasured, UsageError
from legroom.job import Settings
from legroom.questions.size import ask as ask_size
from legroom.questions.size import command
from legroom.questions.size.fits import fit_steps
from legroom.questions.size.planted import FRACTIONS, WIDTHS, evidence_of, plant
from legroom.questions.size.records import CountSizes, TrainSize
from legroom.questions.size.view import size_rows
from legroom.reports.views import to_json
from legroom.session import advise_again
from legroom.testing import FakeMachine, FakeSizes, plant_host

NUM_CASES = 14
"""A hundred: `python benchmarks/size.py planted`."""
USUAL_FRACTIONS = (0.01562, 0.0625, 0.25)
PLANTED = FakeSizes(a=40.0, k1=0.8, k2=0.5, b=60.0)


def holds(span, value):
    return span[0] <= value <= span[1]


def test_planted_cases_differ_in_their_noise_too():
    """Else a hundred cases judge one draw of it."""
    asked = TrainSize(device="cpu", settings={"seed": 0}, vary="width", value=32, fraction=0.25, base_value=1)
    fakes = [replace(plant(seed), a=40.0, k1=0.8, k2=0.5, b=60.0, noise=0.2) for seed in range(5)]
    assert len({tuple(fake.train(asked).losses) for fake in fakes}) == 5


def test_exponents_and_plateau_lie_in_their_ranges_in_at_least_85_of_100_cases():
    num_held = 0
    for seed in range(NUM_CASES):
        fake = plant(seed)
        law = fit_steps([trial for trial in evidence_of(fake).of() if not trial.held_out])
        num_held += holds(law.k1_range, fake.k1) and holds(law.k2_range, fake.k2) and holds(law.b_range, fake.b)
    assert num_held >= 0.85 * NUM_CASES


def test_the_answer_tells_the_planted_law_and_the_size_that_is_done_first(ask, tmp_path):
    answer, _ = ask(PLANTED, tmp_path, seeds=2)  # nine counts of one seed are too few to say that k1 is not 1
    assert (answer.k1, answer.k2, answer.b) == pytest.approx((0.8, 0.5, 60.0), rel=0.15)
    assert answer.holds_one == {"k1": False, "k2": False}
    assert all(abs(each["error"]) < 0.1 and each["inside"] for each in answer.held_out)
    assert {(each["value"], each["fraction"]) for each in answer.held_out} == {
        *((width, 1.0) for width in WIDTHS),
        *((128, fraction) for fraction in USUAL_FRACTIONS),
    }
    assert not any(each["held_out"] for each in answer.points if each["width"] < 128 and each["fraction"] < 1)


def seconds_to(fake, width, loss):
    """By the planted truth: updates to that loss on the way down, times their seconds."""
    size = fake.parameters(width)
    pace = fake.floor_seconds + size / fake.parameters_per_second
    trained = fake.train(
        TrainSize(device="cpu", settings={"seed": 0}, vary="width", value=width, fraction=1.0, base_value=1)
    )
    there = [step for step, found in zip(trained.steps, trained.losses, strict=True) if found <= loss]
    return there[0] * pace if there else math.inf


@pytest.mark.parametrize("pace", [1e7, 1e8, 1e9, 1e11])
def test_the_size_recommended_is_the_one_that_is_done_first(ask, tmp_path, pace):
    fake = replace(PLANTED, parameters_per_second=pace)
    answer, _ = ask(fake, tmp_path, target="loss=0.62")
    truth = {width: seconds_to(fake, width, 0.62) for width in WIDTHS}
    assert truth[answer.recommended_width] <= 1.15 * min(truth.values())
    assert answer.recommended_depth is None


def test_on_a_slow_device_the_next_doubling_pays_only_if_its_step_becomes_faster(ask, tmp_path):
    slow, _ = ask(replace(PLANTED, parameters_per_second=1e6), tmp_path / "slow")
    fast, _ = ask(replace(PLANTED, parameters_per_second=1e14), tmp_path / "fast")
    assert slow.next_model["speedup_needed"] == pytest.approx(2 * slow.next_model["steps_ratio"], rel=0.05)
    assert fast.next_model["speedup_needed"] == 1.0
    assert slow.fill[0]["share"] > 0.9
    assert fast.fill[0]["share"] < 0.1
    assert fast.next_data["steps_ratio"] > 1 > fast.next_model["steps_ratio"]
    assert fast.next_data["loss_ratio"] < 1


def test_memory_by_parameters_says_what_fits(ask, tmp_path):
    answer, _ = ask(PLANTED, tmp_path)
    assert answer.memory["bytes_per_parameter"] == pytest.approx(16)
    assert answer.memory["fixed_bytes"] == pytest.approx(200e6, rel=0.01)
    assert answer.memory["next_fits"]
    assert answer.memory["most_parameters"] == pytest.approx((0.9 * 64 * 2**30 - 200e6) / 16, rel=0.01)


def test_a_plateau_is_told_where_it_was_seen(ask, tmp_path):
    answer, _ = ask(replace(PLANTED, b=600.0, k2=1.0, a=4000.0), tmp_path)
    fall = replace(PLANTED, b=600.0, k2=1.0, a=4000.0)
    saved = 1 - fall.steps(2 * answer.plateau, 10_000) / fall.steps(answer.plateau, 10_000)
    assert saved == pytest.approx(0.05, abs=0.02)


def test_advice_is_given_again_from_the_logbook_and_a_resumed_run_repeats_no_trial(ask, trials, tmp_path):
    answer, first = ask(replace(PLANTED, noise=0.1), tmp_path, seeds=2)
    assert advise_again(tmp_path, "size") == answer
    again, second = ask(replace(PLANTED, noise=0.1), tmp_path, seeds=2, resume=True)
    assert len(trials(first)) == 32
    assert second.asked == []
    assert again.points == answer.points


def test_cheap_trials_come_first_and_more_seeds_last(ask, trials, tmp_path):
    _, machine = ask(PLANTED, tmp_path, seeds=2)
    asked = trials(machine)
    assert (asked[0].value, asked[0].fraction) == (16, 0.01562)
    assert (asked[15].value, asked[15].fraction) == (128, 1.0)
    assert {request.settings["seed"] for request in asked[:16]} == {0}
    assert {request.settings["seed"] for request in asked[16:]} == {1}


def test_a_budget_is_kept_and_what_it_does_not_last_for_is_named(ask, trials, tmp_path):
    full, whole = ask(PLANTED, tmp_path / "full")
    answer, machine = ask(PLANTED, tmp_path / "short", budget=0.6 * full.seconds)
    assert len(trials(machine)) < len(trials(whole))
    assert answer.seconds <= 0.8 * full.seconds
    assert any("for which the budget did not last" in each for each in answer.not_measured)


def test_runs_that_never_reach_a_minimum_are_told_and_used_as_bounds(ask, tmp_path):
    fake = replace(PLANTED, never_settles_above=700)
    answer, _ = ask(fake, tmp_path, budget=1e4)
    bounds = [each for each in answer.points if each["at_least"]]
    assert bounds
    assert any("trials ended while their loss still fell" in note for note in answer.notes)
    for each in bounds:
        assert each["steps"] <= 1.02 * fake.steps(each["num_parameters"], each["num_samples"])
    assert holds(answer.k1_range, 0.8)


def test_with_more_time_only_trials_that_had_not_settled_are_run_again(ask, trials, tmp_path):
    slow = replace(PLANTED, parameters_per_second=3e6)
    short, _ = ask(slow, tmp_path, budget=300.0)
    unsettled = {(each["width"], each["fraction"]) for each in short.points if each["at_least"]}
    settled = {(each["width"], each["fraction"]) for each in short.points if not each["at_least"]}
    _, machine = ask(slow, tmp_path, budget=1e6, resume=True)
    again = {(request.value, request.fraction) for request in trials(machine)}
    assert unsettled <= again
    assert not settled & again


class SlowToCount(FakeSizes):
    """Each time its sizes are counted takes as long as the shortest budget."""

    def answer(self, request):
        found, seconds = super().answer(request)
        return found, 5.0 if isinstance(request, CountSizes) else seconds


def test_fewer_than_three_usable_points_are_refused_with_what_to_do(ask, tmp_path, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    with pytest.raises(NothingMeasured, match=r"the law needs 3: .* OMP_NUM_THREADS=1 .* Raise --budget"):
        ask(replace(PLANTED, never_settles_above=20), tmp_path)
    with pytest.raises(NothingMeasured, match="No trial ran: reading the job took the budget of 5 s"):
        ask(SlowToCount(), tmp_path / "no time", budget=5.0)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    with pytest.raises(NothingMeasured, match=r"held out to score it\. Raise --budget, or name smaller --depths or"):
        ask(replace(PLANTED, never_settles_above=20, own=4), tmp_path / "one", vary="depth")
    with pytest.raises(NothingMeasured, match="Some trials diverged: give the job a lower rate"):
        ask(replace(PLANTED, diverges=True), tmp_path / "wild")


def test_an_exponent_whose_range_is_wider_than_itself_is_refused_with_what_would_narrow_it(ask, tmp_path):
    answer, _ = ask(replace(PLANTED, noise=0.5, k2=0.05), tmp_path)
    assert (answer.k2, answer.holds_one["k2"]) == (None, None)
    assert any(
        "k2: its range" in each and "--widths further apart, more --seeds" in each for each in answer.not_measured
    )


def test_the_factor_of_the_law_is_told_or_said_to_be_open_as_its_exponents_are(ask, tmp_path):
    answer, _ = ask(PLANTED, tmp_path)
    ranges = {name: remark for name, _, remark in size_rows(answer)}
    assert holds(answer.a_range, 40.0)
    assert answer.a is None
    assert " to " in ranges["  a"]
    assert any("a: its range" in each and "--fractions and --widths further" in each for each in answer.not_measured)


def test_a_size_that_does_not_fit_is_said_and_ends_one_trial(ask, tmp_path):
    answer, _ = ask(replace(PLANTED, most_parameters=32 * 100**2), tmp_path)
    assert any("ran out of memory" in note for note in answer.notes)
    assert answer.recommended_width < 128


def test_optimizers_are_compared_by_their_laws(ask, trials, tmp_path):
    answer, machine = ask(
        replace(PLANTED, faster_adam=4.0), tmp_path, compare_optimizers=True, planted={"baseline": Settings()}
    )
    assert {request.solver for request in trials(machine)} == {"own", "sgd", "adam"}
    assert answer.solver_claims == {"adam_needs_fewer": True, "adam_is_steeper": None}
    assert all(low <= each["a"] <= high for each in answer.solvers for low, high in [each["a_range"]])
    rows = {name: (value, remark) for name, value, remark in size_rows(answer)}
    assert rows["adam needs fewer"] == ("yes", "N. Ardalani et al. (2018) say yes")
    for solver in answer.solvers:
        assert all(f"{name} " in rows[solver["solver"]][1] for name in ("a", "k1", "k2"))
        low, high = solver["k1_range"]
        assert f"k1 {solver['k1']:.2f} ({low:.2f} to {high:.2f})" in rows[solver["solver"]][1]


def test_depth_is_varied_by_its_own_words(ask, trials, tmp_path):
    answer, machine = ask(replace(PLANTED, own=4), tmp_path, vary="depth", depths=[16, 32, 64, 128])
    assert {request.vary for request in trials(machine)} == {"depth"}
    assert answer.recommended_width is None
    assert answer.recommended_depth in (16, 32, 64, 128)


def test_the_rule_of_the_rate_is_named_and_starts_at_the_jobs_own_size(ask, trials, tmp_path):
    answer, machine = ask(PLANTED, tmp_path, rate_rule="mup")
    assert {(request.rate_rule, request.base_value) for request in trials(machine)} == {("mup", 128)}
    assert answer.rate_rule == "mup"
    assert any("as muP does; initial weights stayed" in note for note in answer.notes)


def test_json_holds_the_promised_names(ask, tmp_path):
    answer, _ = ask(PLANTED, tmp_path)
    names = {"k1", "k2", "k1_range", "k2_range", "points", "recommended_width", "recommended_depth", "plateau"}
    assert names <= set(to_json(answer))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ({"vary": "height"}, "There is no dimension 'height'"),
        ({"rate_rule": "guess"}, "There is no rate rule 'guess'"),
        ({"rate_rule": "mup", "vary": "depth"}, "mup scales rates with the width"),
        ({"widths": [16.5, 32, 64]}, "--widths 16.5,32,64: each must be a whole number"),
        ({"widths": [0, 32]}, "at least 1"),
        ({"widths": [32, 32]}, "names a value twice"),
        ({"depths": [1, 2]}, "Add --vary depth"),
        ({"fractions": [0.0, 0.5]}, "--fractions 0,0.5: each must be above 0 and at most 1"),
        ({"fractions": [1.5]}, "at most 1"),
        (
            {"widths": [8, 16, 32], "fractions": [1.0]},
            "2 of those .* width 32 is held out to score it. Name more --wid",
        ),
        ({"widths": [16, 32], "fractions": [0.5]}, "2 of those .* left for it: the whole data is held out"),
        (
            {"widths": [16], "fractions": [1.0]},
            "1 of those asked for is left for it. Name more --widths or --fractions",
        ),
        ({"vary": "depth", "depths": [1, 2], "fractions": [1.0]}, "Name more --depths"),
        ({"fractions": [0.001]}, "less than a batch of 32. Name at least 0.0032"),
        ({"fractions": [0.02], "planted": {"largest_loader_batch": 640}}, "Name at least 0.05"),
        ({"budget": 1.0}, "--budget is 1 s"),
        ({"seeds": 0}, "--seeds is 0"),
        ({"within": -1.0}, "--within is -1 s"),
        ({"device": "cuda"}, "CUDA was asked for"),
        ({"target": "score=0.9"}, "sizes are judged by loss. Write loss=0.1"),
    ],
)
def test_wrong_words_are_refused_in_a_sentence_and_by_a_dry_run_too(ask, tmp_path, words, sentence):
    with pytest.raises(UsageError, match=sentence):
        ask(PLANTED, tmp_path, **words)
    if "a batch" not in sentence and "planted" not in words:  # the job says what a batch is
        with pytest.raises(UsageError, match=sentence):
            ask_size.foresee("digits", **words, run=api.Run(out=tmp_path, host=plant_host()))


def test_the_least_share_that_is_named_can_be_named(ask, tmp_path):
    planted = {"num_samples": 720}
    with pytest.raises(UsageError, match=r"Name at least 0\.0445$"):
        ask(PLANTED, tmp_path, fractions=[0.0444], planted=planted)
    assert ask(PLANTED, tmp_path, fractions=[0.0445], planted=planted)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"widths": "16.5,32"}, "--widths 16.5,32 cannot be read. Write whole numbers"),
        ({"depths": "one"}, "--depths one cannot be read"),
        ({"fractions": "half"}, "--fractions half cannot be read. Write shares"),
    ],
)
def test_lists_that_cannot_be_read_are_refused(given, sentence):
    with pytest.raises(UsageError, match=sentence):
        command.words(**given)


def test_a_job_without_validation_data_is_refused(tmp_path):
    machine = FakeMachine(PLANTED)
    plain = machine.memory._description()
    machine.memory._description = lambda: replace(plain, has_valid=False)
    with pytest.raises(UsageError, match="this job has none; give the Job valid_data"):
        api.size("digits", device="cpu", run=api.Run(out=tmp_path, engine=machine, host=plant_host()))


@pytest.mark.parametrize(
    ("more", "planted", "sentence"),
    [
        ({"names": ("depth",)}, {}, "does not say how to change its width; it can vary depth. Give the Job resize="),
        ({"names": ()}, {}, "does not say how to change its width. Give the Job resize="),
        ({"same_size": True}, {}, "widths that change nothing: resize"),
        ({"same_size": True, "own": 1}, {}, "widths that change nothing: resize"),
        ({"own": None}, {}, "Name --widths"),
        ({}, {"own_step": True}, "This job has its own step"),
        ({}, {"num_samples": None}, "Give the Job num_samples"),
    ],
    ids=["no width", "no resize", "same size", "width unused", "own width unknown", "own step", "unknown length"],
)
def test_a_job_that_cannot_be_asked_is_refused_with_what_to_do(ask, tmp_path, more, planted, sentence):
    with pytest.raises(UsageError, match=sentence):
        ask(replace(PLANTED, **more), tmp_path, planted=planted)


def test_a_dry_run_names_as_many_trials_as_are_planned_and_runs_none(ask, trials, tmp_path):
    words = {"budget": 1e6, "seeds": 2, "fractions": FRACTIONS}
    _, machine = ask(PLANTED, tmp_path / "run", **words)
    foreseen = ask_size.foresee("digits", **words, run=api.Run(out=tmp_path / "dry", host=plant_host()))
    assert foreseen.probes[-1].num_probes == (9, len(trials(machine)))
    assert not (tmp_path / "dry").exists()
