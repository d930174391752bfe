"""A plan is tried out on fresh seeds before it is recommended."""

from dataclasses import replace

import pytest

from legroom.job import Settings
from legroom.questions.rate.records import RunTrial
from legroom.session import advise_again
from legroom.training.records import Train

OWN = Settings(batch_size=32, learning_rate=0.02, num_epochs=20)


def tried_out_at_all(machine):
    """Runs of what a plan chose."""
    runs = [request for request in machine.asked if isinstance(request, Train) and request.target]
    return [request for request in runs if request.settings["seed"] >= 100]


def tried_out(machine, answer):
    """Runs of the plan's own batch size and rate that were asked for, of every length."""
    found = tried_out_at_all(machine)
    return [request for request in found if request.settings["learning_rate"] == answer.learning_rate]


def first_length(machine, answer):
    """Updates of the first run that tried the plan out: before shorter ones were tried."""
    return tried_out(machine, answer)[0].num_steps


def test_the_forecast_is_what_fresh_seeds_took(planted, tmp_path):
    machine = planted.plant(own=OWN)
    answer = planted.ask(tmp_path, machine)
    runs = [request for request in tried_out(machine, answer) if request.num_steps == answer.num_steps]
    assert [request.settings["seed"] for request in runs] == [*range(110, 118)], "it was made shorter once"
    assert {request.target for request in runs} == {("loss", 0.12)}
    took = [machine.runs.train(request).seconds for request in runs]
    assert answer.predicted_seconds == pytest.approx(took[0], rel=0.05)
    assert answer.predicted_range[0] < took[0] < answer.predicted_range[1]
    assert answer.spent["rehearsal"] > 0
    assert any(note.startswith("Tried out on 8 fresh seeds: to the target in ") for note in answer.notes)
    assert advise_again(tmp_path, "plan") == answer


def test_a_run_whose_seeds_all_reached_the_target_at_its_end_is_made_shorter(planted, tmp_path):
    machine = planted.plant(own=OWN)
    answer = planted.ask(tmp_path, machine)
    whole = first_length(machine, answer)
    assert 0.8**3 * whole <= answer.num_steps < whole
    assert f"with only {answer.num_steps:,} updates to the target in" in answer.found["rehearsal"]


def test_a_shorter_run_that_one_seed_of_eight_misses_is_not_recommended(planted, tmp_path):
    machine = planted.plant(own=OWN)
    train, lengths = machine.runs.train, []

    def misses_last(request):
        found, seed = train(request), int(request.settings["seed"])
        if seed >= 100 and request.target:
            lengths.append(request.num_steps)
        return replace(found, stopped_because="finished") if seed == 117 and request.target else found

    machine.runs.train = misses_last
    answer = planted.ask(tmp_path, machine)
    assert answer.num_steps == lengths[0] == first_length(machine, answer)
    assert lengths.count(round(0.8 * lengths[0])) == 8
    assert answer.predicted_seconds < answer.baseline_seconds
    assert any(note.startswith("Tried out on 3 fresh seeds") for note in answer.notes)
    assert advise_again(tmp_path, "plan") == answer


def test_a_shorter_run_whose_seeds_all_reached_the_target_by_luck_is_not_recommended(planted, tmp_path):
    """As seen of a job judged by 500 samples: all of eight ended at least at the target, two of three fresh ones did
    not."""
    machine = planted.plant(own=OWN)
    train, by_luck = machine.runs.train, [1e-6, 2e-6, 1e-6, 3e-5, 1e-6, 4e-5, 2e-6, 1e-6]

    def barely(request):
        found, seed = train(request), int(request.settings["seed"])
        if not (110 <= seed < 118 and request.target):
            return found
        last = replace(found.evaluations[-1], loss=request.target[1] - by_luck[seed - 110])
        return replace(found, evaluations=[*found.evaluations[:-1], last])

    machine.runs.train = barely
    answer = planted.ask(tmp_path, machine)
    assert answer.num_steps == first_length(machine, answer)
    assert advise_again(tmp_path, "plan") == answer


def test_what_was_found_but_takes_longer_where_it_is_tried_out_is_not_recommended(planted, tmp_path):
    machine = planted.plant(own=OWN)
    train = machine.runs.train

    def slower(request):
        """The plan's runs learn at a tenth of the rate that it names."""
        if request.settings["seed"] < 100:
            return train(request)
        return train(replace(request, settings={**request.settings, "learning_rate": 0.013}))

    machine.runs.train = slower
    answer = planted.ask(tmp_path, machine)
    assert answer.kept
    assert answer.learning_rate == OWN.learning_rate


def test_a_run_that_misses_the_target_makes_the_plan_longer(planted, tmp_path):
    """At half the rate it misses as well, so that nothing steadier is found."""
    even, machine = planted.plant(own=OWN), planted.plant(own=OWN)
    first, train = planted.ask(tmp_path / "a", even), machine.runs.train

    def misses_once(request):
        found, is_found = train(request), request.settings["learning_rate"] == first.learning_rate
        is_missed = request.settings["seed"] == 100 if is_found else request.settings["seed"] > 100
        return replace(found, stopped_because="finished") if is_missed else found

    machine.runs.train = misses_once
    answer = planted.ask(tmp_path / "b", machine)
    assert answer.num_steps == round(1.3 * first_length(even, first))
    assert answer.predicted_range[1] > first.predicted_range[1]


def test_a_budget_that_is_too_small_tries_nothing_out(planted, tmp_path):
    machine = planted.plant(own=OWN)
    answer = planted.ask(tmp_path, machine, budget=25.0)
    assert answer.predicted_seconds is not None
    assert not tried_out(machine, answer)
    assert "rehearsal" not in answer.spent


def test_what_a_run_gains_in_a_blink_is_no_reason_to_change_it(planted, tmp_path):
    """On a machine forty times as fast the plan takes two thirds of the time still, but a tenth of a second less."""
    slow = planted.ask(tmp_path / "slow", planted.plant(own=OWN))
    quick = planted.plant(own=OWN, seconds=lambda size: planted.step_seconds(size) / 40)
    assert not slow.kept
    assert planted.ask(tmp_path / "quick", quick).kept


def test_a_machine_that_was_slow_while_the_jobs_own_settings_ran_makes_no_plan_look_faster(planted, tmp_path):
    """Their run took four times as long since something else ran beside it; by when the plan is tried out it ended."""
    quiet = planted.ask(tmp_path / "quiet", planted.plant(own=OWN))
    machine = planted.plant(own=OWN)
    train = machine.runs.train

    def busy_at_first(request):
        found = train(request)
        if request.settings["seed"] >= 100:
            return found
        return replace(found, seconds=4 * found.seconds, samples_per_second=found.samples_per_second / 4)

    machine.runs.train = busy_at_first
    busy = planted.ask(tmp_path / "busy", machine)
    assert busy.baseline_seconds == pytest.approx(quiet.baseline_seconds, rel=0.1)
    assert busy.predicted_seconds == pytest.approx(quiet.predicted_seconds, rel=0.1)


def test_a_turn_of_the_jobs_own_updates_is_no_run_of_its_own(planted, tmp_path):
    """A plan made again in the same folder reads what it finds there of the job's own runs: turns are not of them."""
    first = planted.ask(tmp_path, planted.plant(own=OWN))
    again = planted.ask(tmp_path, planted.plant(own=OWN), resume=True)
    assert (again.baseline_seconds, again.predicted_seconds) == (first.baseline_seconds, first.predicted_seconds)


def test_where_the_first_choice_is_not_what_it_promised_the_next_best_is_tried(planted, tmp_path):
    first, machine = planted.ask(tmp_path / "a", planted.plant(own=OWN)), planted.plant(own=OWN)
    train = machine.runs.train

    def fails_there(request):
        """At the batch that is best by all that was measured, fresh seeds never reach the target."""
        found = train(request)
        is_first = request.settings["seed"] >= 100 and request.settings["batch_size"] == first.batch_size
        return replace(found, stopped_because="finished") if is_first else found

    machine.runs.train = fails_there
    answer = planted.ask(tmp_path / "b", machine)
    tried = [request.settings["batch_size"] for request in tried_out_at_all(machine)]
    assert list(dict.fromkeys(tried)) == [first.batch_size, answer.batch_size]
    assert first.batch_size != answer.batch_size
    turns = [one for one in machine.asked if isinstance(one, Train) and not one.target]
    assert len(turns) == 13, (
        "three of its own minute for each choice: the first, that at half its rate, the next, and that made shorter; "
        "and one for a run that was shorter still and missed"
    )
    assert not answer.kept
    assert answer.predicted_seconds < answer.baseline_seconds
    assert advise_again(tmp_path / "b", "plan") == answer


FACTORS = (1.0, 1.0, 1.0, 1.0, 0.7, 1.4, 1.0, 0.9)
"""Of the updates that runs need, by their seeds: 100 to 103 are the last four."""


def uneven(planted, machine):
    """The machine, on which runs with fresh seeds need other numbers of updates."""
    train = machine.runs.train

    def train_uneven(request):
        learner, seed = machine.runs.learner, int(request.settings["seed"])
        machine.runs.learner = replace(learner, s_min=learner.s_min * FACTORS[seed % len(FACTORS)])
        found = train(request)
        machine.runs.learner = learner
        return found

    machine.runs.train = train_uneven
    return machine


def test_runs_that_lie_far_apart_are_followed_by_more_as_far_as_the_budget_goes(planted, tmp_path):
    even, machine = planted.plant(own=OWN), uneven(planted, planted.plant(own=OWN))
    first, answer = planted.ask(tmp_path / "even", even), planted.ask(tmp_path / "uneven", machine)
    short = uneven(planted, planted.plant(own=OWN))
    planted.ask(tmp_path / "short", short, budget=90.0)
    whole = first_length(even, first)
    num_even = sum(request.num_steps == whole for request in tried_out(even, first))
    num_uneven = len(tried_out(machine, answer))
    assert num_even == 3 < num_uneven <= 8
    assert len(tried_out_at_all(short)) < num_uneven


def test_more_runs_by_own_settings_that_stay_narrow_their_forecast(planted, tmp_path):
    """What is tried out never gets there, and the job's own runs lie far apart."""
    machine = planted.plant(own=OWN)
    learning, train = machine.others[0], machine.runs.train
    whole, own_runs = learning.answer, []

    def uneven_trials(request):
        learner = learning.learner
        if isinstance(request, RunTrial):
            learning.learner = replace(learner, s_min=learner.s_min * (1, 2.5, 0.4)[int(request.settings["seed"]) % 3])
        found = whole(request)
        learning.learner = learner
        return found

    def fails(request):
        is_own = request.settings["learning_rate"] == OWN.learning_rate
        if is_own and request.num_steps is None:
            own_runs.append(request)
        return train(request) if is_own else replace(train(request), stopped_because="finished")

    learning.answer, machine.runs.train = uneven_trials, fails
    answer = planted.ask(tmp_path, machine, target="same")
    assert answer.kept
    assert own_runs
    assert len({request.settings["seed"] for request in own_runs}) == len(own_runs)
    assert advise_again(tmp_path, "plan") == answer


def missing_half_of_the_seeds(planted, first, *, diverges=False):
    """At the rate that is best by its trials half of the fresh seeds never get there; at a lower one all do."""
    machine = planted.plant(own=OWN)
    train = machine.runs.train

    def train_some(request):
        found, seed = train(request), int(request.settings["seed"])
        is_edge = request.settings["learning_rate"] == first.learning_rate and seed >= 100 and seed % 2 == 0
        if is_edge and diverges:
            return replace(found, stopped_because="diverged", num_steps=1, num_samples=0, samples_per_second=0.0)
        return replace(found, stopped_because="finished") if is_edge else found

    machine.runs.train = train_some
    return machine


@pytest.mark.parametrize("diverges", [False, True])
def test_a_rate_that_misses_with_some_seeds_is_left_for_a_lower_one(planted, tmp_path, diverges):
    first = planted.ask(tmp_path / "a", planted.plant(own=OWN))
    answer = planted.ask(tmp_path / "b", missing_half_of_the_seeds(planted, first, diverges=diverges))
    assert answer.learning_rate == pytest.approx(first.learning_rate / 2, rel=0.01)
    assert answer.batch_size == first.batch_size
    assert not answer.kept
    because = next(item.because for item in answer.recommendations if item.name == "learning_rate")
    assert "0.5 times the rate that was found" in because
    assert "at 0.5 times the rate to the target in" in answer.found["rehearsal"]
    assert advise_again(tmp_path / "b", "plan") == answer


@pytest.mark.parametrize("stopped", ["diverged", "finished"])
def test_a_plan_that_never_gets_there_where_it_is_tried_out_is_not_recommended(planted, tmp_path, stopped):
    """However few updates it made before it diverged, and however long the job's own run is."""
    machine = planted.plant(own=replace(OWN, learning_rate=0.001, num_epochs=60))
    train = machine.runs.train

    def fails(request):
        found = train(request)
        if request.settings["seed"] < 100 or request.num_steps is None or not request.target:
            return found
        return replace(found, stopped_because=stopped, num_steps=1)

    machine.runs.train = fails
    answer = planted.ask(tmp_path, machine)
    assert answer.kept
    assert answer.learning_rate == 0.001


def test_a_shorter_run_is_not_begun_where_the_budget_does_not_last_for_all_of_them(planted, tmp_path):
    machine = planted.plant(own=OWN)
    answer = planted.ask(tmp_path, machine, budget=200.0)
    assert answer.num_steps == first_length(machine, answer)
    assert {request.num_steps for request in tried_out_at_all(machine)} == {answer.num_steps}


def test_paces_of_runs_that_differ_widen_the_forecast(planted, tmp_path):
    even, machine = planted.plant(own=OWN), planted.plant(own=OWN)
    train = machine.runs.train

    def changing(request):
        found = train(request)
        slower = 1.6 if request.settings["seed"] % 2 and request.target else 1.0
        return replace(found, seconds=slower * found.seconds, samples_per_second=found.samples_per_second / slower)

    machine.runs.train = changing
    first, answer = planted.ask(tmp_path / "a", even), planted.ask(tmp_path / "b", machine)
    widths = [one.predicted_range[1] / one.predicted_range[0] for one in (first, answer)]
    assert widths[1] > 1.2 * widths[0]
