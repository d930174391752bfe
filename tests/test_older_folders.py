"""Folders that legroom wrote before a logbook's head held the question: read, shown, advised from and trained with.

`planted` was made with a FakeMachine, the others by commands on two busy cores: `digits` by memory (twice), speed,
loading, plan and train, `card` by memory --card, `thesis` by loading --rule thesis, `several` by memory --memory
1GiB,700MiB.
"""

import json
import shutil
from dataclasses import asdict
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
FREE_MEMORY = dict.fromkeys(("max_workers_by_memory", "workers_by_memory"), "no entry tells how much was free")
BUDGET = {
    "budget_bytes": "no entry tells it: it is taken for what the last proof took and had to leave free",
    "range": "ends at what would fit the budget",
    "recommendations": "hold the range, and the budget in a sentence",
    "notes": "one on how heaps fill came later",
    "num_workers": "was not told of a host then",
}
SEVERAL_PASSES = "no entry tells that 20,000 samples an update were asked for"
NEW_DOUBT = "medians of few processes are in doubt now by what processes differ"
DIFFERENT = {
    ("digits", "loading"): FREE_MEMORY,
    ("planted", "loading"): FREE_MEMORY,
    ("thesis", "loading"): FREE_MEMORY,
    ("planted", "memory"): BUDGET,
    ("digits", "memory"): {
        **BUDGET,
        **dict.fromkeys(("effective_batch", "micro_batch_size", "accumulation_steps", "settings"), SEVERAL_PASSES),
        **dict.fromkeys(("probes", "bytes_per_sample", "fixed_bytes"), "take in those of the run before, by 1 GiB"),
    },
    ("planted", "speed"): {
        "points": NEW_DOUBT,
        "predictions": NEW_DOUBT,
        "law": "its doubt follows the points",
        "settings_tried": NEW_DOUBT,
        "largest_because": "no entry tells how long a step was allowed to take",
    },
    ("digits", "speed"): {
        "points": "processes of a size are joined by their geometric mean now, and are in less doubt",
        **dict.fromkeys(("best_samples_per_second", "range", "recommendations", "law", "notes"), "follow the points"),
        **dict.fromkeys(("settings_tried", "kept_memory"), NEW_DOUBT),
    },
    ("planted", "train"): {},
    ("digits", "train"): {},
}
"""What an answer given again says otherwise than the one that was saved, each with the reason; all else is the same."""
NOT_TOLD = {
    ("card", "memory"): "does not say how much memory was asked about",
    ("digits", "plan"): "from before plans were written down whole",
    ("planted", "plan"): "from before plans were written down whole",
}
"""What cannot be advised again, and how that is said."""


def saved(folder, question):
    """The newest saved answer to the question."""
    return next(one.answer for one in read_answers(OLDER / folder)[0] if one.question == question)


def plain(answer):
    """Its fields as JSON has them."""
    return json.loads(json.dumps(asdict(answer)))


def test_all_that_can_be_advised_again_is():
    asked = {(folder, one.question) for folder in FOLDERS for one in read_answers(OLDER / folder)[0]}
    assert asked == {*DIFFERENT, *NOT_TOLD, ("several", "memory")}


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


@pytest.mark.parametrize(("folder", "question"), DIFFERENT)
def test_advice_given_again_is_the_same_but_for_what_has_a_reason(folder, question):
    before, again = plain(saved(folder, question)), plain(advise_again(OLDER / folder, question))
    assert before.keys() == again.keys()
    assert {name for name in before if before[name] != again[name]} == set(DIFFERENT[folder, question])


def test_of_several_budgets_the_last_is_advised_again_by_what_its_last_proof_took():
    before, again = saved("several", "memory"), advise_again(OLDER / "several", "memory")
    for name in ("job", "machine", "card", "device", "seconds", "baseline"):
        assert getattr(again, name) == getattr(before, name), name
    assert again.budget_bytes == pytest.approx(before.budget_bytes, rel=0.001)
    assert before.max_batch_size <= again.max_batch_size <= before.range[1], "what the last proof took fits its budget"
    assert again.verified
    assert again.peak_bytes <= again.budget_bytes


@pytest.mark.parametrize(("folder", "question"), NOT_TOLD)
def test_what_no_entry_tells_is_said_with_a_way_forward(folder, question):
    why = NOT_TOLD[folder, question]
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
