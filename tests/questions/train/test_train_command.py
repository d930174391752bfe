"""`legroom train` as a user runs it: what it prints, how it ends, and that a run goes on where it was broken off."""

import dataclasses
import fcntl
import io
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import psutil
import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

from legroom import api
from legroom.cli.app import app
from legroom.engines.local import LocalEngine
from legroom.errors import UsageError
from legroom.job import Settings
from legroom.questions.train.view import print_train
from legroom.testing import FakeMachine, FakeMemory, FakeRuns, plant_host

JOBS = Path(__file__).parents[2] / "jobs"
JOB = f"{JOBS / 'bad' / 'trouble.py'}:job"
HANGING = f"{JOBS / 'bad' / 'data.py'}:job"
# 64 updates of 2 epochs, a checkpoint after every fifth: update 23 is amid an epoch and amid two checkpoints.
WORDS = ["train", JOB, "--device", "cpu", "--evaluate-steps", "5", "--checkpoint-seconds", "0", "--json"]
SAMPLE = r"waiting for sample 1001 of the training data, in batch \d+ of epoch 1"
TRAIN_KEYS = {
    "legroom_version", "job", "machine", "seconds", "notes", "not_measured", "final_score", "final_loss", "best_score",
    "num_steps", "num_epochs", "seconds_to_target", "stopped_because",
}  # fmt: skip


def run(folder, *more, trouble=""):
    """The command to its end; its exit code, its JSON and what it said beside."""
    command = [sys.executable, "-m", "legroom", *WORDS, "--out", str(folder), *more]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "TROUBLE": trouble}, timeout=120)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout), done.stderr


@pytest.fixture
def run_here(legroom_here, forking):
    """The same without a process and a child of its own: for runs that end by themselves."""

    def run(folder, *more, trouble=""):
        ran = legroom_here(*WORDS, "--out", folder, *more, env={"TROUBLE": trouble})
        return ran.code, ran.json, ran.stderr

    return run


def hear_signals():
    """Tests run in the background of a shell inherit that SIGINT is ignored, and under nohup SIGHUP too."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def wait_until_still(parent):
    """Loader processes are ahead of a run, which trains on until it needs the sample that hangs."""
    before, now = None, core_seconds(parent)
    while before != now:
        time.sleep(0.7)
        before, now = now, core_seconds(parent)


def core_seconds(parent):
    """Of the processes below it, by process, in hundredths: on a busy machine one that works still gets some."""
    below = psutil.Process(parent.pid).children(recursive=True)
    return {each.pid: sum(each.cpu_times()[:2]) for each in below}


def break_off(folder, number, *more, job=JOB):
    """The command, given that signal amid an epoch; its exit code, what it printed, and the processes below it."""
    sign = folder.with_suffix(".slow")
    sign.unlink(missing_ok=True)
    command = [sys.executable, "-m", "legroom", "train", job, *WORDS[2:], "--out", str(folder), *more]
    environment = {**os.environ, "TROUBLE": f"slow {sign}", "SIGN": str(sign)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, **pipes, env=environment, preexec_fn=hear_signals) as parent:
        while not sign.exists():
            assert parent.poll() is None, "it ended before it was broken off"
            time.sleep(0.02)
        if job == HANGING:
            wait_until_still(parent)
        below = psutil.Process(parent.pid).children(recursive=True)
        parent.send_signal(number)
        printed, _ = parent.communicate(timeout=60)
    return parent.returncode, printed, below


def losses_of(folder):
    path = folder / "metrics.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []
    return [value for line in lines for value in line.get("losses", [])]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that nothing broke off, and what it printed."""
    folder = tmp_path_factory.mktemp("train") / "whole"
    code, answer, said = run(folder)
    assert code == 0, said
    return folder, answer, said


def test_one_json_object_with_the_promised_names(whole):
    folder, answer, said = whole
    assert set(answer) >= TRAIN_KEYS
    assert (answer["num_steps"], answer["num_epochs"], answer["stopped_because"]) == (64, 2.0, "finished")
    assert answer["best_score"] == max(found["score"] for found in answer["evaluations"])
    assert answer["final_score"] == answer["evaluations"][-1]["score"] > 0.5
    assert answer["seconds_to_target"] is None
    assert len(losses_of(folder)) == 64
    assert said == ""


def test_a_killed_run_goes_on_to_exactly_the_losses_of_a_whole_one(whole, tmp_path):
    code, _, below = break_off(tmp_path / "killed", signal.SIGKILL)
    _, alive = psutil.wait_procs(below, timeout=60)
    assert (code, alive) == (-signal.SIGKILL, [])
    assert 0 < len(losses_of(tmp_path / "killed")) < 64
    code, answer, said = run(tmp_path / "killed", "--resume")
    assert code == 0, said
    assert answer["resumed_from"] % 5 == 0
    assert 0 < answer["resumed_from"] < 64
    assert losses_of(tmp_path / "killed") == losses_of(whole[0])
    assert answer["final_loss"] == whole[1]["final_loss"]


def test_interrupted_and_terminated_runs_save_exit_130_and_go_on(whole, tmp_path):
    folder, stops = tmp_path / "stopped", []
    for number, more in ((signal.SIGINT, []), (signal.SIGTERM, ["--resume"])):
        code, printed, _ = break_off(folder, number, *more)
        answer = json.loads(printed)
        assert (code, answer["stopped_because"]) == (130, "interrupted")
        assert any("--resume goes on" in note for note in answer["notes"])
        stops.append(answer["num_steps"])
        assert len(losses_of(folder)) == stops[-1]
    assert 23 <= stops[0] < stops[1] < 64
    code, answer, said = run(folder, "--resume")
    assert (code, answer["resumed_from"]) == (0, stops[1]), said
    assert losses_of(folder) == losses_of(whole[0])


def test_a_run_whose_terminal_is_gone_saves(tmp_path):
    code, printed, _ = break_off(tmp_path / "hung-up", signal.SIGHUP)
    answer = json.loads(printed)
    assert (code, answer["stopped_because"]) == (130, "interrupted")
    saved = torch.load(tmp_path / "hung-up" / "checkpoint.pt", weights_only=True)
    assert saved["progress"]["step"] == answer["num_steps"] >= 23


@pytest.mark.parametrize("ask", [api.train, api.memory])
def test_more_workers_than_this_machine_may_have_are_refused_though_the_job_names_them(tmp_path, ask):
    engine = FakeMachine(memory=FakeMemory(baseline=Settings(num_workers=4096)))
    run = api.Run(out=tmp_path / "o", engine=engine, host=plant_host())
    with pytest.raises(UsageError, match="num_workers is 4096; it must be a whole number from 0 to 64"):
        ask("digits", device="cpu", run=run)
    assert [request.kind for request in engine.asked] == ["describe"]


def own_terminal():
    """The slave on stdin becomes the terminal of a session of its own, as a window's is."""
    hear_signals()
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def test_a_run_in_a_window_that_is_closed_saves(tmp_path):
    folder, sign = tmp_path / "closed", tmp_path / "closed.slow"
    command = [sys.executable, "-m", "legroom", *WORDS[:-1], "--out", str(folder)]
    environment = {**os.environ, "TROUBLE": f"slow {sign}", "SIGN": str(sign), "TERM": "xterm"}
    window, slave = pty.openpty()
    streams = {"stdin": slave, "stdout": slave, "stderr": slave}
    with subprocess.Popen(command, **streams, env=environment, preexec_fn=own_terminal) as parent:
        os.close(slave)
        while not sign.exists():
            assert parent.poll() is None, "it ended before its window was closed"
            assert os.read(window, 1 << 16)  # the bar
        os.close(window)
        assert parent.wait(60) == 130
    saved = torch.load(folder / "checkpoint.pt", weights_only=True)
    assert saved["progress"]["step"] == len(losses_of(folder)) >= 23


@pytest.mark.parametrize("more", [[], ["--workers", "2"]], ids=["here", "in a loader process"])
def test_one_ctrl_c_ends_a_run_whose_sample_hangs_names_it_and_saves(tmp_path, more):
    folder = tmp_path / "hung"
    code, printed, _ = break_off(folder, signal.SIGINT, "--with", "fault=hangs", *more, job=HANGING)
    answer = json.loads(printed)
    assert (code, answer["stopped_because"]) == (130, "interrupted")
    assert any(re.search(SAMPLE, note) for note in answer["notes"]), answer["notes"]
    saved = torch.load(folder / "checkpoint.pt", weights_only=True)
    assert saved["progress"]["step"] == answer["num_steps"] == len(losses_of(folder)) > 0


def test_a_sample_that_hears_no_signals_in_a_loader_process_is_named_with_its_batch(tmp_path):
    more = ["--with", "fault=deadlocks", "--workers", "1"]
    code, printed, _ = break_off(tmp_path / "hung", signal.SIGINT, *more, job=HANGING)
    words = r"waiting for one of the samples (\d+, ){7}\d+ and 24 more of the training data, in batch \d+"
    assert code == 130
    assert any(re.search(words, note) for note in json.loads(printed)["notes"])


def test_one_ctrl_c_ends_a_run_that_hears_no_signals(tmp_path):
    code, printed, below = break_off(tmp_path / "deaf", signal.SIGINT, "--with", "fault=deadlocks", job=HANGING)
    _, alive = psutil.wait_procs(below, timeout=10)
    assert (code, printed, alive) == (130, b"", [])


def test_a_run_that_hung_too_long_is_saved_and_told_with_its_sample(tmp_path, legroom_here, monkeypatch):
    sign = tmp_path / "asked"
    monkeypatch.setenv("SIGN", str(sign))

    class SinceItHangs(LocalEngine):
        """Of the seconds before, on a busy machine it may say nothing for as many."""

        def start(self, address, environment, *, alone=False):
            child = super().start(address, environment, alone=alone)
            child.clock = lambda: time.time() - sign.stat().st_mtime if sign.exists() else 0.0
            return child

    monkeypatch.setattr("legroom.session.LocalEngine", SinceItHangs)
    words = ["train", HANGING, "--with", "fault=hangs", "--device", "cpu", "--timeout", "5", "--out", tmp_path / "o"]
    ran = legroom_here(*words)
    assert ran.code == 1
    assert re.search(r"did nothing for 5\.0 s and was ended.* It was waiting for sample 1001 of the", ran.stderr)
    assert re.search(r"All up to update \d+ is saved; --resume goes on", ran.stderr)
    assert (tmp_path / "o" / "checkpoint.pt").is_file()


def test_a_loss_that_is_no_number_exits_1_with_update_rate_and_checkpoint(tmp_path, run_here):
    code, answer, said = run_here(tmp_path / "nan", "--schedule", "linear", trouble="nan")
    rate = 0.1 * (1 - 22 / 64)
    assert code == 1
    assert f"The loss of update 23 is no finite number; the rate was {rate:.3g}." in said
    assert f"of update 20: {tmp_path / 'nan' / 'checkpoint.pt'}" in said
    assert (answer["error_type"], answer["step"], answer["checkpoint_step"]) == ("Diverged", 23, 20)
    assert answer["learning_rate"] == pytest.approx(rate)


def test_a_checkpoint_of_other_settings_is_refused(whole, tmp_path):
    # In a process like the one that wrote it: what a job imports, and so its digest, depends on Python's path.
    shutil.copytree(whole[0], tmp_path / "copy")
    code, answer, said = run(tmp_path / "copy", "--resume", "--learning-rate", "0.05")
    assert code == 2
    assert "is of another run (its settings: learning_rate 0.1, not 0.05)" in said
    assert "learning_rate 0.1, not 0.05" in answer["error"]
    assert losses_of(tmp_path / "copy") == losses_of(whole[0])


def test_a_folder_of_another_job_is_refused(whole, tmp_path):
    shutil.copytree(whole[0], tmp_path / "copy")
    with pytest.raises(UsageError, match="is the logbook of"):
        ask(tmp_path / "copy", resume=True)


def test_a_batch_larger_than_the_data_exits_2(tmp_path, run_here):
    code, _, said = run_here(tmp_path / "large", "--batch-size", "1000")
    assert code == 2
    assert "has 512 samples, fewer than one batch of 1,000. Use a batch of at most 512" in said


def ask(folder, *, resume=False, **more):
    """The question put to a machine that runs nothing."""
    return api.train("digits", device="cpu", run=api.Run(out=folder, resume=resume, engine=FakeMachine()), **more)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"target": "accuracy=0.9"}, "'accuracy=0.9' cannot be read. Write score=0.97 or loss=0.1"),
        ({"target": "score"}, "'score' cannot be read"),
        ({"target": "loss=nan"}, "'loss=nan' cannot be read"),
        ({"target": "score=very high"}, "cannot be read"),
        ({"settings": {"learning_rate": -0.1}}, "learning_rate is -0.1; it must be a positive number"),
        ({"settings": {"learning_rate": float("nan")}}, "learning_rate is nan"),
        ({"settings": {"learning_rate": float("inf")}}, "learning_rate is inf"),
        ({"settings": {"schedule": "cosin"}}, "'cosin' is no schedule. Write NAME"),
        ({"settings": {"schedule": "cosine:power=2"}}, "keys of cosine: end"),
        ({"settings": {"num_epochs": 0}}, "num_epochs is 0"),
        ({"settings": {"precision": "fp8"}}, "precision is 'fp8'; it must be one of fp32"),
        ({"settings": {"num_workers": 100_000}}, "num_workers is 100000; it must be a whole number from 0 to"),
        ({"settings": {"num_devices": 0}}, "num_devices is 0; it must be a whole number of at least 1"),
        ({"plan": Path("no_such_plan.toml")}, "no_such_plan.toml"),
        ({"batchsize": 64}, "train has no word 'batchsize'. Close to it: batch_size"),
        ({"settings": {"learningrate": 1}}, "Close to it: learning_rate"),
        ({"epochs": 3}, "train has no word 'epochs'. Close to it: num_epochs"),
        ({"resume": True}, "Write run=legroom.Run(resume=...)"),
        ({"num_steps": 0}, "num_steps is 0; it must be a whole number of at least 1"),
        ({"max_seconds": -1}, "max_seconds is -1"),
        ({"watch": "accuracy"}, "watch is 'accuracy'; it must be 'loss' or 'score'"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"device": "tpu"}, "There is no device 'tpu'"),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, dict) else "",
)
def test_wrong_use_is_refused_with_a_way_forward(tmp_path, more, message):
    with pytest.raises(UsageError) as caught:
        api.train("digits", run=api.Run(out=tmp_path, engine=FakeMachine()), **({"device": "cpu"} | more))
    assert message in str(caught.value)
    assert caught.value.exit_code == 2


def test_settings_may_be_given_by_name(tmp_path):
    answer = ask(tmp_path, batch_size=64, learning_rate=0.5, num_epochs=2, settings={"batch_size": 8, "seed": 7})
    chosen = [answer.settings[name] for name in ("batch_size", "learning_rate", "num_epochs", "seed")]
    assert chosen == [64, 0.5, 2, 7]


def test_a_plan_for_another_job_is_refused(tmp_path):
    engine = FakeMachine()
    answer = api.plan("digits", device="cpu", run=api.Run(out=tmp_path / "planned", engine=engine))
    path = Path(answer.plan_path)
    ask(tmp_path / "same", plan=path, num_steps=10)
    changes = ('job = "/elsewhere/digits.py:job"', 'job = "digits"\noptions = {hidden = 64}')
    for change in changes:
        other = tmp_path / "other.toml"
        other.write_text(path.read_text().replace('job = "digits"', change))
        with pytest.raises(UsageError, match=r"is a plan for .* and this run is of digits\. Name the plan"):
            ask(tmp_path / "other", plan=other)
    run = api.Run(out=tmp_path / "options", engine=engine)
    api.train("digits", options={"hidden": 64}, device="cpu", plan=other, num_steps=10, run=run)


def test_a_plan_says_how_many_updates_a_run_has_unless_words_do(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text('job = "digits"\n[batch_size]\nvalue = 64\n[num_steps]\nvalue = 70\n')
    assert ask(tmp_path / "planned", plan=path).num_steps == 70
    assert ask(tmp_path / "steps", plan=path, num_steps=30).num_steps == 30
    assert ask(tmp_path / "epochs", plan=path, num_epochs=3).num_steps == 100, "what epochs are for the planted runs"


def test_a_path_is_printed_whole_in_a_narrow_terminal(tmp_path):
    path = "/".join(["a" * 30] * 4)
    console = Console(width=60, file=io.StringIO())
    print_train(console, dataclasses.replace(ask(tmp_path, num_steps=10), checkpoint=path))
    assert path in "".join(console.file.getvalue().split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--watch", "accuracy"], "--watch is 'accuracy'; it must be loss or score"),
        (["--target", "score=high"], "'score=high' cannot be read"),
        (["--steps", "0"], "--steps"),
        (["--seconds", "soon"], "--seconds"),
        (["--patience", "0"], "--patience"),
        (["--with", "hidden"], "Write --with name=value"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_wrong_words_exit_2(tmp_path, words, message):
    ran = CliRunner().invoke(app, ["train", "digits", "--device", "cpu", "--out", str(tmp_path), *words])
    assert ran.exit_code == 2
    assert message in " ".join(ran.stderr.split())
    assert "Traceback" not in ran.output


@pytest.mark.parametrize("words", [["train", "--steps", "x"], ["train", "--step", "3"], ["trian"], ["report"]])
def test_words_that_cannot_be_read_are_one_object_too_where_that_was_asked_for(words):
    ran = CliRunner().invoke(app, [*words, "--json"])
    told = json.loads(ran.stdout)
    assert (ran.exit_code, told["error_type"]) == (2, "UsageError")
    assert told["error"].split(".")[0] in " ".join(ran.stderr.replace("│", "").split())
    assert CliRunner().invoke(app, words).stdout == ""


@pytest.mark.parametrize(("more", "said"), [([], "no checkpoint"), (["--quiet"], "")])
def test_quiet_says_nothing_but_errors(tmp_path, monkeypatch, more, said):
    monkeypatch.setattr("legroom.session.LocalEngine", lambda **words: FakeMachine())
    words = ["train", "digits", "--device", "cpu", "--steps", "3", "--resume", "--out", str(tmp_path), *more]
    ran = CliRunner().invoke(app, words, catch_exceptions=False)
    assert ran.exit_code == 0
    assert said in ran.stderr if said else ran.stderr == ""
    wrong = CliRunner().invoke(app, ["train", "digits", "--watch", "speed", "--out", str(tmp_path), *more])
    assert "--watch is 'speed'" in wrong.stderr


@pytest.mark.parametrize(("chance", "left"), [(0.3, True), (0.495, False), (0.6, False), (None, None)])
def test_a_score_that_never_left_chance_is_told(chance, left, tmp_path):
    machine = FakeMachine(runs=FakeRuns(chance=chance))
    answer = api.train("digits", num_steps=100, run=api.Run(out=tmp_path, engine=machine))
    assert (answer.best_score, answer.left_chance) == (0.5, left)
    assert any("never left chance" in note for note in answer.notes) == (left is False)
    page = (tmp_path / "report.html").read_text()
    assert ("never left chance" in page) == (left is False)
