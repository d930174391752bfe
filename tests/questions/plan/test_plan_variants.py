"""Variants of the step that pay go into the plan, its forecast and its code; short runs are not asked about."""

from dataclasses import replace

import pytest
from pydantic import TypeAdapter

from legroom.job import Settings
from legroom.logbook import read_records
from legroom.plan_file import read_plan
from legroom.questions.plan.forecast import forecast_of
from legroom.questions.plan.records import PlanQuestion
from legroom.questions.variants.fake import FakeVariants
from legroom.questions.variants.records import TimeVariant
from legroom.session import advise_again
from legroom.testing import FakeMachine
from legroom.training.records import Train

GAINS = {"channels_last": 1.6, "fused": 1.25}
OWN = Settings(batch_size=32, learning_rate=0.005, num_epochs=100)


def slow(size):
    """Steps that make the planted run last minutes."""
    return 0.03 + 0.0003 * size


def plant(planted, fake, *, seconds=slow, own=OWN, **more):
    """The planted machine, on which runs with variants take as much less as the fake says."""
    learner = planted.LEARNER if seconds is not slow else replace(planted.LEARNER, s_min=600)
    machine = planted.plant(learner=learner, own=own, seconds=seconds, **more)
    machine.others, fake.step_seconds = (fake, *machine.others), seconds(own.batch_size)
    train = machine.runs.train

    def faster(request):
        found, names = train(request), [name for name, has in request.settings.items() if has is True]
        for name in names:
            ratio = fake.ratios.get(name, 1.0)
            found = replace(found, seconds=found.seconds / ratio, samples_per_second=found.samples_per_second * ratio)
        return found

    machine.runs.train = faster
    return machine


def because(answer, name):
    return next(item.because for item in answer.recommendations if item.name == name)


def test_what_pays_is_in_the_plan_its_forecast_its_runs_and_its_file(planted, tmp_path):
    plain = planted.ask(tmp_path / "plain", plant(planted, FakeVariants()))
    machine = plant(planted, FakeVariants(ratios=GAINS))
    answer = planted.ask(tmp_path / "fast", machine)
    assert [answer.settings[name] for name in ("channels_last", "fused", "compile")] == [True, True, False]
    assert answer.batch_size == plain.batch_size
    assert answer.predicted_seconds < plain.predicted_seconds / 1.8
    assert "2.00 (2.00 to 2.00) times as fast" in because(answer, "fused")
    runs = [request for request in machine.asked if isinstance(request, Train) and request.target]
    tried = [request for request in runs if request.settings["seed"] >= 100]
    assert answer.predicted_seconds == pytest.approx(machine.runs.train(tried[0]).seconds, rel=0.05)
    assert all(request.settings["fused"] and request.settings["channels_last"] for request in tried)
    assert read_plan(tmp_path / "fast" / "plan.toml").settings == Settings(**answer.settings)
    assert 'group["fused"]' in answer.code["pytorch"]
    assert advise_again(tmp_path / "fast", "plan") == answer


def test_a_forecast_that_was_not_tried_out_counts_the_gain_and_its_range(planted, tmp_path):
    planted.ask(tmp_path, plant(planted, FakeVariants(ratios=GAINS, noise=0.02)))
    words = read_records(tmp_path, "plan").head.question
    question = replace(TypeAdapter(PlanQuestion).validate_python(words), rehearsals=())
    fast, plain = forecast_of(question), forecast_of(replace(question, variants=None))
    assert fast.chosen.batch_size == plain.chosen.batch_size
    assert fast.chosen.step_seconds == pytest.approx(plain.chosen.step_seconds / 2, rel=0.1)
    assert fast.pace.step(fast.chosen.batch_size, 0) == pytest.approx(fast.chosen.step_seconds)
    assert fast.seconds_spread > plain.seconds_spread
    compiled = replace(question.variants, start_seconds=30.0)
    later = forecast_of(replace(question, variants=compiled))
    assert later.chosen.seconds == pytest.approx(fast.chosen.seconds + 30.0)


def test_what_spoils_the_losses_stays_out(planted, tmp_path):
    fake = FakeVariants(ratios={"bf16": 2.0, "fused": 1.25}, spoils=("bf16",))
    answer = planted.ask(tmp_path, plant(planted, fake))
    assert (answer.precision, answer.settings["fused"]) == ("fp32", True)


def test_a_run_of_seconds_is_asked_about_all_but_compiling(planted, tmp_path):
    machine = plant(planted, FakeVariants(ratios=GAINS), seconds=planted.step_seconds)
    answer = planted.ask(tmp_path, machine)
    assert 1 < answer.predicted_seconds < 20
    assert (answer.settings["fused"], answer.settings["channels_last"]) == (True, True)
    asked = [request.changes for request in machine.asked if isinstance(request, TimeVariant)]
    assert {"fused": True} in asked
    assert not any("compile" in changes for changes in asked)


def test_a_shorter_run_is_not_asked_about(planted, tmp_path):
    machine = plant(planted, FakeVariants(ratios=GAINS), seconds=lambda size: planted.step_seconds(size) / 5)
    answer = planted.ask(tmp_path, machine)
    assert answer.predicted_seconds < 3
    assert not any(isinstance(request, TimeVariant) for request in machine.asked)
    assert "variants" not in answer.spent


def test_own_settings_that_stay_are_run_with_what_pays_for_them(planted, tmp_path):
    """The job's own batch and rate are the best there are: what is left to gain is in the step."""
    own = Settings(batch_size=256, learning_rate=0.06, num_epochs=60)
    plain = planted.ask(tmp_path / "plain", plant(planted, FakeVariants(), own=own))
    assert plain.kept
    answer = planted.ask(tmp_path / "fast", plant(planted, FakeVariants(ratios=GAINS), own=own))
    assert not answer.kept
    assert (answer.batch_size, answer.settings["channels_last"]) == (256, True)
    assert answer.predicted_seconds < plain.predicted_seconds / 1.5
    assert answer.baseline_seconds == pytest.approx(plain.baseline_seconds)


def test_a_job_that_nothing_judges_gets_what_pays_at_its_batch(tmp_path, planted):
    fake = FakeVariants(ratios={"bf16": 1.5})
    machine = plant(planted, fake, own=replace(OWN, num_epochs=200), has_valid=False)
    answer = planted.ask(tmp_path, machine, target="same")
    assert answer.precision == "bf16"
    assert answer.baseline["precision"] == "fp32"


def test_an_answer_in_the_folder_is_not_asked_for_again(planted, tmp_path):
    machine = plant(planted, FakeVariants(ratios=GAINS))
    first = planted.ask(tmp_path, machine)
    again = plant(planted, FakeVariants(ratios=GAINS))
    second = planted.ask(tmp_path, again)
    assert second.settings == first.settings
    assert not any(isinstance(request, TimeVariant) for request in again.asked)


def test_a_run_that_fails_with_variants_is_planned_without_them(planted, tmp_path):
    from legroom.errors import JobRaised

    machine = plant(planted, FakeVariants(ratios=GAINS))
    faster = machine.runs.train

    def fails(request):
        if request.settings["fused"]:
            raise JobRaised("The job raised RuntimeError: no such kernel")
        return faster(request)

    machine.runs.train = fails
    answer = planted.ask(tmp_path, machine)
    assert not answer.settings["fused"]
    assert any("no such kernel" in sentence for sentence in answer.missing)
    assert any(note.startswith("Tried out on") for note in answer.notes), "what is left is tried out all the same"


def test_fakes_answer_for_all_machines():
    assert any(isinstance(fake, FakeVariants) for fake in FakeMachine().others)
