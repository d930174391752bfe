"""`legroom train --devices`: ranks that die or hang, going on with another number of them, words that are refused."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from legroom import api
from legroom.errors import JobCrashed, UsageError
from legroom.logbook import read_records
from legroom.questions.train import command
from legroom.questions.train.records import default_question
from legroom.testing import FakeMachine, FakeRuns
from legroom.testing.host import plant_gpu, plant_host
from legroom.training.records import Train
from legroom.training.several import refuse_unshared

JOBS = Path(__file__).parents[2] / "jobs"
JOB = f"{JOBS / 'bad' / 'trouble.py'}:job"
WORDS = {"device": "cpu", "num_epochs": 1, "batch_size": 16, "checkpoint_steps": 5}


def train(folder, *, resume=False, **words):
    """A run of 16 updates on two processes, wherever this is run."""
    run = api.Run(out=folder, resume=resume, host=plant_host(num_cores=2))
    return api.train(JOB, **{**WORDS, "num_devices": 2, **words}, run=run)


def losses_of(folder):
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [value for line in lines for value in line.get("losses", [])]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The same updates made by one process."""
    folder = tmp_path_factory.mktemp("alone") / "run"
    train(folder, num_devices=1, batch_size=32)
    return losses_of(folder)


def test_a_rank_that_dies_ends_the_run_and_one_process_goes_on_from_its_checkpoint(alone, tmp_path, monkeypatch):
    monkeypatch.setenv("TROUBLE", f"dies {tmp_path / 'died'}")
    with pytest.raises(JobCrashed, match="Rank 1 of 2 died of SIGKILL"):
        train(tmp_path / "run")
    answer = train(tmp_path / "run", resume=True, num_devices=1, batch_size=32)
    assert (answer.resumed_from, answer.num_steps) == (10, 16)
    assert losses_of(tmp_path / "run") == pytest.approx(alone, rel=1e-4)


def test_ranks_started_anew_go_on_from_their_checkpoint(alone, tmp_path, monkeypatch):
    monkeypatch.setenv("TROUBLE", f"dies {tmp_path / 'died'}")
    answer = train(tmp_path / "run", restarts=1)
    assert (answer.resumed_from, answer.num_steps, answer.stopped_because) == (10, 16, "finished")
    assert losses_of(tmp_path / "run") == pytest.approx(alone, rel=1e-4)
    assert "All processes were started anew once after one had failed" in answer.notes
    assert "An update is of 32 samples: 16 on each of 2 devices" in answer.notes


def test_ranks_wait_for_one_another_less_than_a_job_may_say_nothing(tmp_path):
    # Who hangs is then named by those that waited; tests/child/test_ranks.py has one that does.
    machine = FakeMachine(FakeRuns())
    run = api.Run(out=tmp_path, engine=machine, host=plant_host(num_cores=2), timeout=100.0)
    api.train("digits", device="cpu", num_devices=2, run=run)
    asked = default_question(read_records(tmp_path, "train"))
    assert 50 < asked.several["wait_seconds"] < 90


CPU, GPU = plant_host(num_cores=4), plant_host(gpus=(plant_gpu(),))


@pytest.mark.parametrize(
    ("host", "words", "refused"),
    [
        (CPU, {"num_devices": 8}, r"8 processes were asked for, .* there is room for 4: .*--devices 4"),
        (GPU, {"num_devices": 2}, r"2 GPUs were asked for, and 1 can be seen here"),
        (CPU, {"num_devices": 2, "effective_batch": 33}, "33 samples cannot be shared out evenly.* such as 32"),
        (CPU, {"num_devices": 2, "effective_batch": 32, "batch_size": 16}, "give one"),
        (CPU, {"num_devices": 3, "nodes": 2, "rendezvous": "a:1"}, "3 devices cannot be shared out evenly to 2"),
        (CPU, {"num_devices": 4, "nodes": 2}, "2 machines need one host:port to meet at"),
        (CPU, {"num_devices": 4, "nodes": 2, "rendezvous": "here:99999"}, "need one host:port"),
        (CPU, {"rendezvous": "here:29500"}, "Say how many with --nodes"),
        (CPU, {"sync_batch_norm": True}, "--sync-batch-norm is for runs on several devices"),
        (CPU, {"restarts": 2}, "--restarts is for runs on several devices"),
    ],
)
def test_words_that_fit_no_machine_are_refused_before_anything_starts(tmp_path, host, words, refused):
    run = api.Run(out=tmp_path, engine=FakeMachine(FakeRuns()), host=host)
    with pytest.raises(UsageError, match=refused):
        api.train("digits", **words, run=run)


@pytest.mark.parametrize(
    ("own_step", "words", "refused"),
    [
        (True, {}, "This job has its own step, so legroom cannot average"),
        (False, {"settings": {"precision": "fp16"}}, "--shard trains in fp32 or bf16"),
        (False, {"settings": {"precision": "bf16", "compile": True}}, "--shard and --compile"),
    ],
)
def test_what_cannot_be_shared_out_is_refused(own_step, words, refused):
    request = Train(**{"device": "cpu", "settings": {}, "several": {"shard": True}, **words})
    with pytest.raises(UsageError, match=refused):
        refuse_unshared(SimpleNamespace(own_step=own_step), request)


def test_devices_of_the_command_are_those_of_each_machine():
    words = command.words(num_devices=2, nodes=3, rendezvous="here:29500")
    assert words["num_devices"] == 6
