"""Folders that legroom wrote before a logbook's head held the question: read, shown, advised from and trained with.

`planted` was made with a FakeMachine, the others by commands on two busy cores: `digits` by memory (twice), speed,
loading, plan and train, `card` by memory --card, `thesis` by loading --rule thesis, `several` by memory --memory
1GiB,700MiB.
"""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from legroom.cli.app import app
from legroom.errors import UsageError
from legroom.logbook import FILE_NAME, read_lines
from legroom.reports.saved_answers import read_answers
from legroom.session import advise_again

OLDER = Path(__file__).parent / "data" / "older"
FOLDERS = sorted(folder.name for folder in OLDER.iterdir())
MAIN = {
    "memory": ("max_batch_size", "eval_batch_size", "peak_bytes", "peak_phase", "verified"),
    "loading": ("num_workers", "prefetch_factor", "samples_per_second", "bound_by", "shares", "is_fed"),
    "speed": ("knee_batch_size", "range", "best_batch_size", "best_samples_per_second"),
    "train": ("final_loss", "final_score", "num_steps", "num_epochs", "samples_per_second", "stopped_because"),
}
"""What a person takes from an answer."""


def saved(folder, question):
    """The newest saved answer to the question."""
    return next(one.answer for one in read_answers(OLDER / folder)[0] if one.question == question)


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_line_and_every_answer_is_read(folder):
    heads, entries, num_bad = read_lines(OLDER / folder / FILE_NAME)
    assert num_bad == 0
    assert {entry.run for entry in entries} == {head.run for head in heads}
    assert not any(head.question for head in heads)
    answers, notes = read_answers(OLDER / folder)
    assert len(answers) == len(list((OLDER / folder / "answers").iterdir()))
    assert notes == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_page_is_written_from_them(folder, tmp_path):
    shutil.copytree(OLDER / folder, tmp_path / folder)
    shown = json.loads(CliRunner().invoke(app, ["report", str(tmp_path / folder), "--json"]).stdout)
    questions = {one.question for one in read_answers(OLDER / folder)[0]}
    assert {part["question"] for part in shown["sections"]} == questions
    page = (tmp_path / folder / "report.html").read_text()
    assert all(f'<section id="{question}">' in page for question in questions)


@pytest.mark.parametrize(
    ("folder", "question"),
    [
        *(("planted", question) for question in MAIN),
        *(("digits", question) for question in MAIN if question != "speed"),  # its rule of a noisy knee has changed
        ("thesis", "loading"),
    ],
)
def test_advice_given_again_has_the_same_numbers(folder, question):
    before, again = saved(folder, question), advise_again(OLDER / folder, question)
    numbers = {name: getattr(before, name) for name in MAIN[question]}
    assert {name: getattr(again, name) for name in numbers} == numbers
    assert (again.job, again.machine) == (before.job, before.machine)


@pytest.mark.parametrize(
    ("folder", "question", "why"),
    [
        ("card", "memory", "does not say how much memory was asked about"),
        ("digits", "plan", "from before plans were written down whole"),
    ],
)
def test_what_no_entry_tells_is_said_with_a_way_forward(folder, question, why):
    with pytest.raises(UsageError, match=rf"{why}.* again"):
        advise_again(OLDER / folder, question)


@pytest.mark.parametrize("folder", ["digits", "planted"])
def test_a_run_takes_the_plan(legroom_here, forking, folder, tmp_path):
    words = ["--device", "cpu", "--steps", "2", "--out", tmp_path / "o", "--json"]
    ran = legroom_here("train", "digits", "--plan", OLDER / folder / "plan.toml", *words)
    assert ran.code == 0, ran.stderr
    plan = saved(folder, "plan")
    used = {name: ran.json["settings"][name] for name in ("batch_size", "learning_rate", "num_workers")}
    assert used == {name: getattr(plan, name) for name in used}
