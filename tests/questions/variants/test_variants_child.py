"""Variants in real processes: both kinds of steps are timed, what cannot be is a row, and the job itself may fail."""

from dataclasses import asdict
from pathlib import Path

import pytest

from legroom.child.built_job import BuiltJob
from legroom.errors import JobRaised
from legroom.job import Settings
from legroom.job_address import address_of
from legroom.questions.variants.child.turns import time_variant, train_variant
from legroom.questions.variants.records import BLOWN_UP, TimeVariant, TrainVariant

JOBS = Path(__file__).parents[2] / "jobs"


def built(name):
    return BuiltJob(address_of(f"{JOBS / name}.py:job"))


def time(job, changes, **more):
    settings = asdict(Settings(batch_size=8, learning_rate=0.01))
    request = TimeVariant(device="cpu", settings={**settings, **more}, changes=changes, seconds=0.01)
    return time_variant(request, built(job))


def train(job, changes, **more):
    settings = asdict(Settings(batch_size=8, learning_rate=0.01))
    request = TrainVariant(device="cpu", settings={**settings, **more}, changes=changes, num_steps=30)
    return train_variant(request, built(job))


@pytest.mark.parametrize("changes", [{"channels_last": True, "fused": True}, {"precision": "bf16"}])
def test_both_kinds_of_steps_are_timed_in_pairs(changes):
    found = time("convnet", changes, accumulation_steps=2)
    assert found.outcome == "measured", found.why
    assert len(found.own_seconds) == len(found.variant_seconds) >= 4
    assert min(*found.own_seconds, *found.variant_seconds) > 0


@pytest.mark.parametrize(
    ("job", "changes", "says"),
    [
        ("plain", {"channels_last": True}, "no weight of the model has four dimensions"),
        ("gan", {"channels_last": True}, "its own step"),
        ("gan", {"compile": True}, "its own step"),
        ("gan", {"fused": True}, "keeps its optimizers to itself"),
    ],
)
def test_what_cannot_be_tried_says_why(job, changes, says):
    found = time(job, changes)
    assert found.outcome == "impossible"
    assert says in found.why


def test_no_compiler_is_a_reason(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    found = time("convnet", {"compile": True})
    assert (found.outcome, "C++ compiler" in found.why) == ("impossible", True)


def test_a_start_that_takes_too_long_is_given_up():
    settings = asdict(Settings(batch_size=8))
    request = TimeVariant(device="cpu", settings=settings, changes={"fused": True}, limit_seconds=1e-4)
    assert time_variant(request, built("convnet")).outcome == "too_long"


def test_a_job_with_its_own_step_is_timed_in_bf16():
    assert time("gan", {"precision": "bf16"}).outcome == "measured"
    assert len(train("gan", {"precision": "bf16"}).losses) == 30


def test_trainings_of_one_seed_are_alike_and_a_fused_optimizer_hardly_changes_them():
    own, again, fused = train("convnet", {}), train("convnet", {}), train("convnet", {"fused": True})
    assert len(own.losses) == 30
    assert own == again
    assert fused.losses == pytest.approx(own.losses, rel=1e-3)
    assert train("convnet", {}, seed=1).losses != own.losses


def test_losses_that_are_no_numbers_end_a_training():
    found = train("plain", {"fused": True}, learning_rate=1e30)
    assert found.losses[-1] == BLOWN_UP
    assert len(found.losses) < 30


def test_what_a_change_alone_breaks_is_its_outcome_and_what_the_job_breaks_is_an_error(monkeypatch):
    job = built("plain")
    plain = job.job.loss

    def loss(model, batch):
        mean = plain(model, batch)
        assert mean.dtype is not None
        model[0](batch[0]).detach().numpy()  # which bf16 has none of
        return mean

    object.__setattr__(job.job, "loss", loss)
    request = TimeVariant(
        device="cpu", settings=asdict(Settings(batch_size=8)), changes={"precision": "bf16"}, seconds=0.01
    )
    found = time_variant(request, job)
    assert (found.outcome, "TypeError" in found.why) == ("failed", True)
    trained = TrainVariant(device="cpu", settings=request.settings, changes=request.changes, num_steps=2)
    assert train_variant(trained, job).losses == [BLOWN_UP]
    object.__setattr__(job.job, "loss", lambda model, batch: None)
    with pytest.raises(JobRaised):
        time_variant(request, job)


def test_the_command_answers_with_one_object_and_says_what_pays(legroom_here):
    words = ("--device", "cpu", "--json", "--only", "fused", "--batch-size", "4", "--budget", "10s")
    ran = legroom_here("variants", f"{JOBS / 'convnet.py'}:job", *words)
    assert ran.code == 0, ran.stderr
    assert {"chosen", "speedup", "speedup_range", "points", "settings", "recommendations", "seconds"} <= set(ran.json)
    assert [point["name"] for point in ran.json["points"]] == ["fused"]
    assert (ran.json["batch_size"], ran.json["num_steps"]) == (4, 50)


def test_wrong_words_are_told_with_the_way_forward(legroom_here):
    ran = legroom_here("variants", "digits", "--only", "bf17")
    assert (ran.code, "Known: channels_last, bf16, fused, compile" in ran.stderr) == (2, True)


def test_dry_run_lists_probes_and_runs_none(legroom_here, one_folder):
    ran = legroom_here("variants", "digits", "--dry-run", "--json")
    assert len(ran.json["probes"]) == 4
    assert not (one_folder / "legroom-out").exists()
