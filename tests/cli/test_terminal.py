"""What reaches a terminal or a script: no commands from a job's texts, no numbers that JSON lacks, honest estimates."""

import dataclasses
import io
import json

import pytest
from rich.progress import Progress

from legroom import api
from legroom.cli.common import print_answer, print_json, show_progress, speaking
from legroom.errors import JobRaised
from legroom.job_address import JobAddress
from legroom.questions.train.view import print_train
from legroom.reports.saved_answers import read_answers, save_answer
from legroom.reports.terminal import PlainConsole
from legroom.testing import FakeClock, FakeMachine

NASTY = "\x1b]0;owned\x07\x1b[2J\x9b31m\r\x7f\u202e\udcff"
OBEYED = set("\x1b\x07\x9b\r\x7f\u202e")


@pytest.fixture
def answer(tmp_path):
    """Of a run whose job and notes would command a terminal."""
    run = api.Run(out=tmp_path / "o", engine=FakeMachine())
    made = api.train(JobAddress(text="planted"), device="cpu", num_steps=100, run=run)
    return dataclasses.replace(made, job=NASTY, notes=[NASTY], checkpoint=f"/tmp/{NASTY}.pt")


def test_an_answer_prints_nothing_that_a_terminal_obeys(answer):
    console = PlainConsole(file=io.StringIO(), width=100)
    print_train(console, answer)
    assert not OBEYED & set(console.file.getvalue())
    assert "owned" in console.file.getvalue()


@pytest.mark.parametrize("debug", [False, True])
def test_an_error_prints_nothing_that_a_terminal_obeys(capsys, debug):
    with pytest.raises(BaseException, match="1"), speaking(json=False, debug=debug):
        raise JobRaised(NASTY, details=NASTY)
    assert not OBEYED & set(capsys.readouterr().err)


def test_a_job_of_a_nasty_name_that_raises_is_told_in_plain_text(legroom, tmp_path):
    (tmp_path / "ev\x1b[31mil.py").write_text("def job():\n    raise ValueError('\\x1b[2Jgone')\n")
    ran = legroom("memory", "ev\x1b[31mil.py:job", "--device", "cpu", "--memory", "1GiB")
    assert ran.code == 1
    assert "gone" in ran.stderr
    assert "\x1b" not in ran.stderr + ran.stdout


def test_numbers_that_json_lacks_are_null(capsys, answer):
    answer = dataclasses.replace(answer, final_loss=float("nan"), samples_per_second=float("inf"))
    print_answer(answer, print_train, json=True)
    print_json({"deep": [{"a": (float("-inf"), 1)}]})
    first, second = (json.loads(line, parse_constant=pytest.fail) for line in capsys.readouterr().out.splitlines())
    assert (first["final_loss"], first["samples_per_second"], second) == (None, None, {"deep": [{"a": [None, 1]}]})


def test_an_answer_with_such_numbers_is_kept_as_json_and_read_again(tmp_path, answer):
    save_answer(tmp_path, dataclasses.replace(answer, samples_per_second=float("nan")))
    json.loads((tmp_path / "answers" / "train.json").read_text(), parse_constant=pytest.fail)
    (read,), notes = read_answers(tmp_path)
    assert notes == []
    assert read.answer.samples_per_second != read.answer.samples_per_second


@pytest.mark.parametrize("start", [0.0, 0.5, 0.9])
def test_the_time_left_counts_from_where_a_resumed_run_went_on(start):
    clock = FakeClock()
    bar = Progress(console=PlainConsole(file=io.StringIO()), get_time=clock)
    task = bar.add_task("starting", total=1.0)
    for place in range(5):
        clock.advance(1.0)
        show_progress(bar, task, "epoch 1", start + 0.01 * place)
    assert bar.tasks[0].time_remaining == pytest.approx((1 - start - 0.04) / 0.01, abs=2)
    assert bar.tasks[0].elapsed == pytest.approx(5.0)


def test_resuming_without_a_checkpoint_is_told_at_once(tmp_path):
    told = []
    for resume in (False, True):
        run = api.Run(out=tmp_path, engine=FakeMachine(), resume=resume, tell=told.append)
        api.train("digits", device="cpu", num_steps=10, run=run)
    assert len(told) == 1
    assert f"no checkpoint in {tmp_path} to go on from, so the run begins anew" in told[0]
