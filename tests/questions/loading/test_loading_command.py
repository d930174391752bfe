"""`legroom loading` as a user meets it."""

from pathlib import Path

import pytest

BAD = Path(__file__).parents[2] / "jobs" / "bad" / "data.py"


def test_digits_are_answered_in_json(legroom):
    ran = legroom("loading", "digits", "--device", "cpu", "--json", "--quiet")
    assert ran.code == 0, ran.stderr
    answer = ran.json
    assert answer["bound_by"] in ("compute", "preparation", "storage")
    assert answer["samples_per_second"] > 0
    assert sum(answer["shares"].values()) == pytest.approx(1, abs=1e-3)


def test_a_failing_sample_keeps_what_was_measured(legroom_here, tmp_path):
    ran = legroom_here("loading", BAD, "--with", "fault=raises", "--device", "cpu", "--out", tmp_path / "out")
    assert ran.code == 1
    assert "the label is missing at index 1001, in " in ran.stderr
    assert "--resume goes on from there" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert "loader_rates" in (tmp_path / "out" / "logbook.jsonl").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--batch-size", "0"], "it must be at least 1"),
        (["--batch-size", "99999999"], "is more than the 1,437 samples there are"),
        (["--devices", "-2"], "it must be at least 1"),
        (["--rule", "guess"], "Known: legroom, thesis"),
        (["--precision", "fp12"], "There is no precision"),
    ],
    ids=lambda words: words[0] if isinstance(words, list) else "",
)
def test_wrong_use_exits_2_with_a_way_forward(legroom_here, words, message):
    ran = legroom_here("loading", "digits", "--device", "cpu", *words)
    assert ran.code == 2, ran.stderr
    assert message in " ".join(ran.stderr.split())


def test_a_dry_run_runs_nothing(legroom_here):
    ran = legroom_here("loading", "digits", "--device", "cpu", "--dry-run")
    assert ran.code == 0, ran.stderr
    assert "cold storage" in ran.stdout
