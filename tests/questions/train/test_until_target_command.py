"""`legroom train --until-target`: what it refuses, and what it tells."""

import pytest

from legroom import api
from legroom.errors import UsageError
from legroom.questions.train.until_target import cooldown_notes, prepare_until_target
from legroom.requests import JobDescription
from legroom.testing import FakeMachine
from legroom.training.records import Cooldown, Evaluated, Train, Trained


def asked(tmp_path, **words):
    machine = FakeMachine()
    api.train("digits", device="cpu", until_target=True, run=api.Run(out=tmp_path, engine=machine), **words)
    return machine.asked[-1]


def test_without_a_target_it_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"--until-target was given without a target.*--target score=0.97"):
        asked(tmp_path)


def test_patience_is_refused(tmp_path):
    with pytest.raises(UsageError, match="Leave --patience out"):
        asked(tmp_path, target="score=0.9", patience=3)


def describe(**more):
    words = {"own_step": False, "own_loader": False, "uneven": False, "has_score": True, "torch_version": "2"}
    counts = dict.fromkeys(("num_parameters", "num_trainable", "parameter_bytes", "num_scanned"), 1)
    return JobDescription(
        model_name="M", num_samples=1, num_valid_samples=1, sample_bytes=(1, 1, 1), baseline={},
        **(words | counts | more),
    )  # fmt: skip


def test_a_job_with_its_own_step_is_refused_in_a_sentence():
    with pytest.raises(UsageError, match=r"has its own step.*Leave --until-target out"):
        prepare_until_target({"schedule": "constant"}, {"num_steps": None}, describe(own_step=True), is_long=False)


def test_a_job_with_its_own_scheduler_is_refused_in_a_sentence():
    with pytest.raises(UsageError, match=r"has its own scheduler.*--schedule stable"):
        prepare_until_target({"schedule": "own"}, {"num_steps": None}, describe(), is_long=False)


def test_a_run_that_names_no_length_has_room_and_one_that_does_has_that(tmp_path):
    own = api.train("digits", device="cpu", run=api.Run(out=tmp_path / "own", engine=FakeMachine()))
    free = asked(tmp_path / "free", target="score=0.9")
    assert free.settings["num_epochs"] == 4 * own.settings["num_epochs"]
    assert free.settings["schedule"] == "stable:cooldown=0.1"
    named = asked(tmp_path / "named", target="score=0.9", num_steps=70, schedule="stable:shape=sqrt")
    assert (named.num_steps, named.settings["schedule"]) == (70, "stable:shape=sqrt")


def trained(reason, *cooldowns, num_steps=120):
    found = Evaluated(step=num_steps, epoch=1.0, seconds=1.0, loss=0.1, score=0.9, train_loss=0.1)
    return Trained(
        stopped_because=reason, num_steps=num_steps, num_epochs=1.0, num_samples=1, seconds=1.0, samples_per_second=1.0,
        data_wait_share=0.0, evaluations=[found], last_loss=0.1, learning_rate=0.1, goal="max",
        cooldowns=list(cooldowns),
    )  # fmt: skip


def cooldown(step, num_steps, *, reached=False):
    return Cooldown(
        step=step, num_steps=num_steps, num_samples=32 * num_steps, seconds=2.0, loss=0.1, score=0.9, reached=reached
    )


REQUEST = Train(device="cpu", settings={"schedule": "stable"}, target=("score", 0.9), until_target=True)


def test_it_tells_which_cooldown_reached_the_target_and_what_the_others_cost():
    told, cost = cooldown_notes(REQUEST, trained("target", cooldown(40, 10), cooldown(100, 20, reached=True)))
    assert "Cooldown 2, from update 100 on, reached the target after 20 updates" in told
    assert told.endswith("--schedule stable --steps 125")
    assert "10 updates (8% of the run's own), 320 samples and 2" in cost


def test_a_target_met_before_training_is_told():
    assert "untrained model meets the target" in cooldown_notes(REQUEST, trained("target", num_steps=0))[0]


def test_a_target_that_was_not_reached_is_told_with_the_best(tmp_path):
    run = api.Run(out=tmp_path, engine=FakeMachine())
    answer = api.train("digits", device="cpu", until_target=True, target="score=0.99", num_steps=100, run=run)
    assert "The target score=0.99 was not reached; the best was 0.5, after update 100" in answer.notes
