"""A plan among models of several sizes."""

import tomllib
from dataclasses import replace

import pytest

from legroom.errors import UsageError
from legroom.job import Settings
from legroom.plan_file import read_plan
from legroom.questions.plan.ask import foresee
from legroom.questions.plan.view import summary
from legroom.questions.size.fake import FakeSizes
from legroom.session import advise_again
from legroom.testing.clock import FakeClock

OWN = Settings(batch_size=32, learning_rate=0.02, num_epochs=20)


class BySize:
    """An engine with a planted machine for each size of the model."""

    def __init__(self, **machines):
        self.machines, self.clock = machines, FakeClock()
        for machine in machines.values():
            machine.clock = self.clock

    def start(self, address, environment, *, alone=False):
        size = address.options.get("model_size", "own").replace("=", "")
        return self.machines[size].start(address, environment, alone=alone)


def plant(planted, *, s_min=120, slower=1.0, size=""):
    """A model that needs so many updates, each of which takes so many times as long."""
    machine = planted.plant(
        learner=replace(planted.LEARNER, s_min=s_min),
        own=replace(OWN, model_size=size),
        seconds=lambda batch: slower * planted.step_seconds(batch),
    )
    machine.others = (FakeSizes(own=128), *machine.others)
    return machine


def ask(planted, out, engine, **words):
    return planted.ask(out, engine, **{"model_sizes": "width=64,128,256", "budget": 9000.0, **words})


@pytest.fixture
def wide_is_sooner(planted):
    """Twice the width needs a third of the updates, each of which takes 1.3 times as long; half of it is no good."""
    wide, narrow = {"s_min": 40, "slower": 1.3}, {"s_min": 400, "slower": 0.9}
    return BySize(
        own=plant(planted),
        width256=plant(planted, size="width=256", **wide),
        width64=plant(planted, size="width=64", **narrow),
    )


def test_the_size_that_is_surely_sooner_is_planned(planted, tmp_path, wide_is_sooner):
    alone = planted.ask(tmp_path / "alone", plant(planted))
    answer = ask(planted, tmp_path / "sizes", wide_is_sooner)
    assert answer.model_size == answer.settings["model_size"] == "width=256"
    assert answer.predicted_seconds < alone.predicted_seconds / 1.5
    assert answer.baseline_seconds == pytest.approx(alone.baseline_seconds, rel=0.05)
    assert answer.baseline["model_size"] == ""
    assert [row["model_size"] for row in answer.sizes] == ["width=64", "width=256"], "the job's own is no other size"
    assert [row["num_parameters"] for row in answer.sizes] == [32 * 64**2, 32 * 256**2]
    assert "width 256, batch" in summary(answer).lower()
    assert advise_again(tmp_path / "sizes", "plan") == answer


def test_the_file_trains_and_proves_the_other_size(planted, tmp_path, wide_is_sooner):
    answer = ask(planted, tmp_path, wide_is_sooner)
    plan = read_plan(tmp_path / "plan.toml")
    assert plan.settings == Settings(**answer.settings)
    assert plan.options == {}, "it is a plan for the job as it was named"
    assert "surely there sooner" in tomllib.loads((tmp_path / "plan.toml").read_text())["model_size"]["because"]


def test_a_size_that_is_hardly_sooner_is_left_alone(planted, tmp_path):
    engine = BySize(own=plant(planted), width256=plant(planted, size="width=256", s_min=115))
    answer = ask(planted, tmp_path, engine, model_sizes="width=256")
    assert answer.model_size == ""
    assert any(note.startswith("The job's own model size stays") for note in answer.notes)
    assert any(note.startswith("At width=256 (2,097,152 parameters) the target takes about ") for note in answer.notes)


def test_a_size_that_never_gets_there_is_told_and_not_taken(planted, tmp_path):
    engine = BySize(own=plant(planted), width64=plant(planted, size="width=64", s_min=10_000))
    answer = ask(planted, tmp_path, engine, model_sizes="width=64")
    assert answer.model_size == ""
    assert any(note.startswith("At width=64 there is no forecast: ") for note in answer.notes)


def test_a_target_that_nobody_knows_is_no_target_for_other_sizes(planted, tmp_path):
    """The job's own run hardly began in its part of the budget: what it had by then, any model reaches at once."""
    slow = {"slower": 50.0}
    engine = BySize(own=plant(planted, **slow), width256=plant(planted, size="width=256", s_min=40))
    answer = ask(planted, tmp_path, engine, model_sizes="width=256", target="same", budget=60.0)
    assert answer.predicted_seconds is None
    assert answer.model_size == ""
    assert not engine.machines["width256"].asked
    assert any("none is known. Name a --target" in note for note in answer.notes)


def test_where_the_jobs_own_size_misses_a_named_target_another_that_is_there_is_taken(planted, tmp_path):
    engine = BySize(own=plant(planted, s_min=40_000), width256=plant(planted, size="width=256", s_min=40))
    answer = ask(planted, tmp_path, engine, model_sizes="width=256")
    assert answer.model_size == "width=256"
    because = {item.name: item.because for item in answer.recommendations}["model_size"]
    assert "was not, within its part of the budget" in because


def test_all_sizes_together_end_by_the_budget(planted, tmp_path, wide_is_sooner):
    ask(planted, tmp_path, wide_is_sooner, budget=200.0)
    assert wide_is_sooner.clock() <= 200.0 + 20.0


def test_a_plan_that_goes_on_repeats_nothing(planted, tmp_path, wide_is_sooner):
    first = ask(planted, tmp_path, wide_is_sooner)
    num_asked = {name: len(machine.asked) for name, machine in wide_is_sooner.machines.items()}
    again = ask(planted, tmp_path, wide_is_sooner, resume=True)
    assert {name: len(machine.asked) for name, machine in wide_is_sooner.machines.items()} == num_asked
    assert again.settings == first.settings


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({"model_sizes": "height=3"}, "width, depth"),
        ({"model_sizes": "width=a,2"}, "whole numbers above 0"),
        ({"model_sizes": "width=0"}, "whole numbers above 0"),
        ({"goal": "frugal"}, "leave --goal frugal out"),
        ({"budget": 70.0}, "too little for 4 plans; they take 80 s at least"),
        ({"card": "t4-16gb", "device": "auto"}, "a card that is not here"),
    ],
)
def test_wrong_words_are_refused(planted, tmp_path, wide_is_sooner, words, told):
    with pytest.raises(UsageError, match=told):
        ask(planted, tmp_path, wide_is_sooner, **words)


def test_a_job_that_cannot_be_resized_says_how(planted, tmp_path):
    machine = plant(planted)
    machine.others = (FakeSizes(names=()), *machine.others)
    with pytest.raises(UsageError, match="Give the Job resize="):
        ask(planted, tmp_path, BySize(own=machine))


def test_a_dry_run_counts_every_size():
    alone, three = (
        [sum(probe.seconds[end] for probe in foresee("digits", device="cpu", **words).probes) for end in (0, 1)]
        for words in ({}, {"model_sizes": "width=32,64"})
    )
    assert three == pytest.approx([3 * seconds for seconds in alone])


def test_the_cost_counts_the_plans_of_all_sizes_whichever_is_taken(planted, tmp_path, wide_is_sooner):
    taken = ask(planted, tmp_path / "taken", wide_is_sooner)
    own = BySize(own=plant(planted), width256=plant(planted, size="width=256", s_min=115))
    kept = ask(planted, tmp_path / "kept", own, model_sizes="width=256")
    assert (taken.model_size, kept.model_size) == ("width=256", "")
    for answer, engine in ((taken, wide_is_sooner), (kept, own)):
        assert answer.cost_seconds == pytest.approx(engine.clock(), rel=0.1)
        assert "width=256" in answer.spent
