"""`legroom train --devices`: ranks that die or hang, going on with another number of them, words that are refused."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from legroom import api
from legroom.child.ranks import run_ranks
from legroom.errors import JobCrashed, JobHung, UsageError
from legroom.job_address import JobAddress
from legroom.logbook import read_records
from legroom.questions.train import command
from legroom.questions.train.records import default_question
from legroom.testing import FakeMachine, FakeRuns
from legroom.testing.host import plant_gpu, plant_host
from legroom.training.records import Train
from legroom.training.several import norm_note, refuse_unshared

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


def test_a_rank_that_hangs_ends_the_run_within_its_time_and_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("TROUBLE", f"hangs {tmp_path / 'hung'}")
    run = api.Run(out=tmp_path / "run", host=plant_host(num_cores=2), timeout=20.0)
    began = time.monotonic()
    with pytest.raises(JobHung, match=r"Rank 1 of 2 did not come to where the others waited, at .*trouble.py, line"):
        api.train(JOB, **WORDS, num_devices=2, run=run)
    assert time.monotonic() - began < 60


def hear_ctrl_c():
    """Tests run in the background of a shell inherit that it is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_ctrl_c_ends_a_run_of_which_a_rank_hangs_and_its_checkpoint_stays(tmp_path, monkeypatch):
    monkeypatch.setenv("TROUBLE", f"hangs {tmp_path / 'hung'}")
    words = ["--device", "cpu", "--epochs", "1", "--batch-size", "16", "--devices", "2", "--checkpoint-seconds", "0"]
    command = [sys.executable, "-m", "legroom", "train", JOB, *words, "--out", str(tmp_path / "run")]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, **pipes, preexec_fn=hear_ctrl_c) as started:
        while not (tmp_path / "hung").exists():
            assert started.poll() is None, started.stdout.read()
            time.sleep(0.05)
        started.send_signal(signal.SIGINT)
        started.communicate(timeout=150)  # the other rank would wait for 210 s
    assert started.returncode == 130
    assert (tmp_path / "run" / "checkpoint.pt").is_file()


def test_ranks_wait_for_one_another_less_than_a_job_may_say_nothing(tmp_path):
    # Who hangs is then named by those that waited; tests/child/test_ranks.py has one that does.
    machine = FakeMachine(FakeRuns())
    run = api.Run(out=tmp_path, engine=machine, host=plant_host(num_cores=2), timeout=100.0)
    api.train("digits", device="cpu", num_devices=2, run=run)
    asked = default_question(read_records(tmp_path, "train"))
    assert 50 < asked.several["wait_seconds"] < 90


SHORT = f"""
import os, sys
from dataclasses import replace
sys.path.insert(0, {str(JOBS)!r})
import iterable
from torch.utils.data import DataLoader

NUM = 100 if os.environ.get("RANK") == "1" else 200

class Short(iterable.Stream):
    def __iter__(self):
        return (sample for _, sample in zip(range(NUM), super().__iter__()))

class Batches:
    def __init__(self, data, size):
        self.batches = DataLoader(data, size)
    def __len__(self):
        return NUM // 10
    def __iter__(self):
        return iter(self.batches)

def stream():
    return replace(iterable.job(), train_data=Short, num_samples=None)

def generated():
    return replace(stream(), loader=lambda data, settings: iter(DataLoader(data, settings.batch_size)))

def counted():
    return replace(stream(), loader=lambda data, settings: Batches(data, settings.batch_size))
"""
"""Jobs whose second rank reads half as much as the first."""


@pytest.fixture(scope="module")
def of_two(tmp_path_factory):
    """What ranks come to that train one job after the other: a start of two takes as long as a hundred such runs."""
    path = tmp_path_factory.mktemp("jobs") / "short.py"
    path.write_text(SHORT)
    words = {"device": "cpu", "several": {"num_local": 2}}
    own = {**words, "settings": {"batch_size": 10, "learning_rate": 0.01, "num_epochs": 1}}
    runs = {name: (f"{path}:{name}", own) for name in ("stream", "generated", "counted")}
    few = {**words, "settings": {"batch_size": 4, "learning_rate": 0.01}, "num_steps": 2}
    runs["convnet"] = (f"{JOBS / 'convnet.py'}:job", few)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", os.pathsep.join([str(JOBS), *sys.path]))
        found = run_ranks(JobAddress(text=""), "on_ranks:train_jobs", {"runs": list(runs.values())}, num_ranks=2)
    return dict(zip(runs, found[0], strict=True))


@pytest.mark.parametrize(("name", "more"), [("stream", "shares out$"), ("generated", "unless that is one batch")])
def test_a_rank_that_has_less_data_than_others_and_so_shortens_the_epoch_is_named(of_two, name, more):
    assert of_two[name]["num_steps"] == 5
    (told,) = [
        note for note in of_two[name]["notes"] if re.search("^Rank 1 of 2 had no more batches while others", note)
    ]
    assert re.search(more, told)


def test_a_loader_of_another_length_on_each_rank_is_refused(of_two):
    assert "JobRaised: The job's loader has 10, 5 batches for each of them on ranks 0 to 1" in of_two["counted"]


PLAN = 'job = "digits"\n' + "".join(
    f"[{name}]\nvalue = {value}\n"
    for name, value in {
        "batch_size": 64, "accumulation_steps": 1, "num_devices": 1, "learning_rate": 0.1, "warmup_steps": 8,
        "num_steps": 70,
    }.items()
)  # fmt: skip


def settings_on(folder, *, plan=PLAN, **words):
    """What a run on four planted cores would train with, its length, and what is said of it."""
    path = folder / "plan.toml"
    folder.mkdir(exist_ok=True)
    path.write_text(plan)
    run = api.Run(out=folder, engine=FakeMachine(FakeRuns()), host=plant_host(num_cores=4))
    answer = api.train("digits", device="cpu", **({"plan": path} if plan else {}), **words, run=run)
    names = ("batch_size", "accumulation_steps", "learning_rate", "warmup_steps")
    return [answer.settings[name] for name in names], answer.num_steps, answer.notes


def test_a_plan_keeps_its_update_rate_and_length_on_more_devices(tmp_path):
    settings, num_steps, notes = settings_on(tmp_path, num_devices=4)
    assert (settings, num_steps) == ([16, 1, 0.1, 8], 70)
    assert "An update is of 64 samples: 16 on each of 4 devices" in notes
    joined = PLAN.replace("[accumulation_steps]\nvalue = 1", "[accumulation_steps]\nvalue = 4")
    assert settings_on(tmp_path, plan=joined, num_devices=4)[0] == [64, 1, 0.1, 8], "the batch that fits stays"
    back = PLAN.replace("[num_devices]\nvalue = 1", "[num_devices]\nvalue = 4")
    assert settings_on(tmp_path, plan=back, num_devices=1)[0] == [64, 4, 0.1, 8]
    with pytest.raises(
        UsageError, match=r"64 samples cannot be shared out evenly: 3 .* such as 63\. That is the plan's"
    ):
        settings_on(tmp_path, num_devices=3)


@pytest.mark.parametrize(
    ("words", "expected", "said"),
    [
        ({"batch_size": 64, "rate_rule": "sqrt"}, [64, 1, 0.2, 2], "256 samples instead of 64, so the rate is 0.2"),
        ({"batch_size": 64, "rate_rule": "legw"}, [64, 1, 0.2, 8], "a warm-up of 8 updates instead of 8"),
        ({"effective_batch": 256, "rate_rule": "linear"}, [64, 1, 0.4, 2], "by the rule linear, which nobody measured"),
        ({"batch_size": 64}, [64, 1, 0.1, 8], "and the rate stays 0.1; --rate-rule legw would move it"),
        ({"batch_size": 64, "learning_rate": 0.3}, [64, 1, 0.3, 8], "An update is of 256 samples: 64 on each of 4"),
    ],
)
def test_the_rate_follows_an_update_that_grows_by_the_rule_that_is_named(tmp_path, words, expected, said):
    settings, _, notes = settings_on(tmp_path, num_devices=4, **words)
    assert settings == [*expected[:2], pytest.approx(expected[2]), expected[3]]
    assert any(said in note for note in notes)


def test_devices_alone_move_the_rate_of_a_job_without_a_plan(tmp_path):
    alone, _, notes = settings_on(tmp_path / "1", plan="")
    assert not any("rate" in note for note in notes)
    together, _, notes = settings_on(tmp_path / "4", plan="", num_devices=4)
    assert together[:2] == alone[:2], "each device has the job's own batch"
    assert together[2] == pytest.approx(2 * alone[2])
    assert any("by the rule legw" in note for note in notes)
    assert settings_on(tmp_path / "k", plan="", num_devices=4, rate_rule="keep")[0] == alone


CPU, GPU = plant_host(num_cores=4), plant_host(gpus=(plant_gpu(),))


@pytest.mark.parametrize(
    ("host", "words", "refused"),
    [
        (CPU, {"num_devices": 8}, r"8 processes were asked for, .* there is room for 4: .*--devices 4"),
        (CPU, {"num_devices": 2, "device": "cuda"}, r"there is no GPU here .*\). Use --device cpu$"),
        (GPU, {"num_devices": 2}, r"2 GPUs were asked for, and 1 can be seen here"),
        (CPU, {"num_devices": 2, "effective_batch": 33}, "33 samples cannot be shared out evenly.* such as 32"),
        (CPU, {"num_devices": 2, "effective_batch": 32, "batch_size": 16}, "give one"),
        (CPU, {"num_devices": 3, "nodes": 2, "rendezvous": "a:1"}, "3 devices cannot be shared out evenly to 2"),
        (CPU, {"num_devices": 4, "nodes": 2}, "2 machines need one host:port to meet at"),
        (CPU, {"num_devices": 4, "nodes": 2, "rendezvous": "here:99999"}, "need one host:port"),
        (CPU, {"rendezvous": "here:29500"}, "Say how many with --nodes"),
        (CPU, {"sync_batch_norm": True}, "--sync-batch-norm is for runs on several devices"),
        (CPU, {"num_devices": 2, "sync_batch_norm": True}, "BatchNorm on GPUs alone"),
        (CPU, {"restarts": 2}, "--restarts is for runs on several devices"),
        (CPU, {"bucket_cap_mb": 3.0}, "--bucket-cap-mb is for runs on several devices"),
        (CPU, {"broadcast_buffers": False}, "--no-broadcast-buffers is for runs on several devices"),
        (CPU, {"find_unused_parameters": True}, "--find-unused-parameters is for runs on several devices"),
        (CPU, {"num_devices": 2, "shard": True, "bucket_cap_mb": 3.0}, "--shard has no use for --bucket-cap-mb"),
        (CPU, {"num_devices": 2, "shard": True, "broadcast_buffers": False}, "no use for --no-broadcast-buffers"),
        (CPU, {"num_devices": 2, "shard": True, "find_unused_parameters": True}, "no use for --find-unused"),
        (CPU, {"num_devices": 2, "rate_rule": "cube"}, "There is no --rate-rule 'cube'. Known: legw, sqrt"),
        (CPU, {"num_devices": 2, "rate_rule": "sqrt", "learning_rate": 0.1}, "--rate-rule and --learning-rate"),
    ],
)
def test_words_that_fit_no_machine_are_refused_before_anything_starts(tmp_path, host, words, refused):
    run = api.Run(out=tmp_path, engine=FakeMachine(FakeRuns()), host=host)
    with pytest.raises(UsageError, match=refused):
        api.train("digits", **words, run=run)


@pytest.mark.parametrize(
    ("lacks", "words", "refused"),
    [
        ("own_step", {}, "This job has its own step, so legroom cannot average"),
        ("carries_state", {}, "they carry state from one to the next"),
        ("", {"settings": {"precision": "fp16"}}, "--shard trains in fp32 or bf16"),
        ("", {"settings": {"precision": "bf16", "compile": True}}, "--shard and --compile"),
    ],
)
def test_what_cannot_be_shared_out_is_refused(lacks, words, refused):
    request = Train(**{"device": "cpu", "settings": {}, "several": {"shard": True}, **words})
    with pytest.raises(UsageError, match=refused):
        refuse_unshared(SimpleNamespace(**{"own_step": False, "carries_state": False, lacks: True}), request)


def test_devices_of_the_command_are_those_of_each_machine():
    words = command.words(num_devices=2, nodes=3, rendezvous="here:29500")
    assert words["num_devices"] == 6


@pytest.mark.parametrize(("name", "option"), [("bucket_cap_mb", "--bucket-cap-mb"), ("num_workers", "--workers")])
def test_a_setting_that_will_not_do_is_named_as_the_option_that_it_is(name, option):
    with pytest.raises(UsageError, match=rf"^{option} is -3; it must be [^N]*$"):
        command.words(**{name: -3})


def test_a_plan_for_several_devices_is_trained_on_one_without_its_options(tmp_path):
    told = PLAN + "[bucket_cap_mb]\nvalue = 3.0\n[broadcast_buffers]\nvalue = false\n"
    assert settings_on(tmp_path, plan=told)[0] == [64, 1, 0.1, 8]


@pytest.mark.parametrize(("of_plan", "nodes", "expected"), [(8, 2, 8), (1, 2, 2), (8, 1, None)])
def test_devices_of_a_plan_are_those_of_all_machines(tmp_path, of_plan, nodes, expected):
    path = tmp_path / "plan.toml"
    path.write_text(PLAN.replace("[num_devices]\nvalue = 1", f"[num_devices]\nvalue = {of_plan}"))
    words = command.words(plan=path, nodes=nodes, rendezvous="here:29500")
    assert words.get("num_devices") == expected
    assert command.words(plan=path, nodes=2, num_devices=3)["num_devices"] == 6, "those of each machine, as named"


def test_what_batchnorm_sees_is_told_where_a_device_has_another_batch_than_the_job(of_two):
    assert any("BatchNorm would see 4 samples instead of 8" in note for note in of_two["convnet"]["notes"])
    assert norm_note(True, 8, 8) == norm_note(False, 8, 4) == []
    for several in (True, False):
        assert ("--sync-batch-norm" in norm_note(True, 8, 4, several=several)[0]) == several


def train_on_two_machines(folder, *more):
    """Two launchers of one process each, and what they said."""
    with socket.create_server(("localhost", 0)) as free:
        place = f"localhost:{free.getsockname()[1]}"
    words = ["--device", "cpu", "--epochs", "1", "--batch-size", "16", "--devices", "1", "--nodes", "2"]
    command = [sys.executable, "-m", "legroom", "train", JOB, *words, "--rendezvous", place, "--out", "run", *more]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    launchers = [subprocess.Popen(command, cwd=folder, **pipes) for _ in range(2)]
    told = [launcher.communicate(timeout=120)[0] for launcher in launchers]
    return [launcher.returncode for launcher in launchers], "\n".join(told)


def test_two_machines_that_share_a_disk_train_one_model_in_one_folder(alone, tmp_path):
    codes, told = train_on_two_machines(tmp_path)
    assert codes == [0, 0], told
    assert losses_of(tmp_path / "run") == pytest.approx(alone, rel=1e-4)
    assert (tmp_path / "run" / "checkpoint.pt").is_file()
    assert len(list((tmp_path / "run").glob("node-*"))) == 1


def test_a_rank_that_dies_on_the_other_machine_lets_the_first_go_on_from_its_checkpoint(alone, tmp_path, monkeypatch):
    # torch starts the ranks of the healthy machine anew too, and counts that as no restart.
    monkeypatch.setenv("TROUBLE", f"dies {tmp_path / 'died'}")
    codes, told = train_on_two_machines(tmp_path, "--restarts", "1", "--checkpoint-seconds", "0")
    assert codes == [0, 0], told
    assert "Went on from update" in told, told
    assert losses_of(tmp_path / "run") == pytest.approx(alone, rel=1e-4)
    assert not list((tmp_path / "run").glob("earlier-*")), "what the run had made is no earlier run's"
