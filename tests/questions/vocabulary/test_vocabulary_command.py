"""The vocabulary command counts what the text holds, and refuses what it cannot read."""

import json

import pytest
from typer.testing import CliRunner

from legroom.cli.app import app

TEXT = "the cat saw the dog\nthe dog\nemu\n"


@pytest.fixture
def ask(tmp_path):
    (tmp_path / "text").write_text(TEXT)

    def run(*words, name="text"):
        return CliRunner().invoke(app, ["vocabulary", str(tmp_path / name), *words])

    return run


def test_sizes_and_costs_follow_the_thresholds(ask):
    answer = json.loads(ask("--json", "--cells", "10", "--batch-size", "2").stdout)
    assert (answer["num_words"], answer["num_tokens"], answer["num_lines"]) == (5, 8, 3)
    assert [(point["at"], point["vocabulary_size"]) for point in answer["points"]] == [(1, 5), (2, 2), (3, 1)]
    first = answer["points"][0]
    assert first["output_parameters"] == 11 * 6
    assert first["output_bytes"] == 5 * first["length"] * 2 * 4 == 5 * 5 * 2 * 4


def test_common_word_elimination_is_the_opposite_cut(ask):
    points = json.loads(ask("--json", "--by", "common-limit").stdout)["points"]
    assert [(point["at"], point["vocabulary_size"]) for point in points] == [(1, 3), (2, 4), (3, 5)]


def test_merges_lengthen_the_vocabulary_and_shorten_the_lines(ask):
    points = json.loads(ask("--json", "--by", "merges").stdout)["points"]
    assert points[0]["length"] == len("thecatsawthedog")
    assert points[-1]["vocabulary_size"] > points[0]["vocabulary_size"]
    assert points[-1]["length"] == 5


def test_a_column_is_read_and_long_lines_are_left_out(ask, tmp_path):
    (tmp_path / "pairs").write_text("a b\tc\nd\te f g\n")
    answer = json.loads(ask("--json", "--column", "2", "--max-length", "2", name="pairs").stdout)
    assert (answer["num_words"], answer["num_left_out"]) == (1, 1)


def test_the_table_has_a_bar_for_each_threshold(ask):
    told = ask().stdout
    assert told.count("████") == 1
    assert "unknown" in told


@pytest.mark.parametrize(
    ("words", "name", "sentence"),
    [
        ((), "nowhere", "There is no file"),
        (("--by", "luck"), "text", "There is no --by 'luck'. Known: min-frequency"),
        (("--column", "3"), "text", "has no column 3 in line 1"),
        ((), "empty", "has no words"),
        ((), "latin", "is no text in UTF-8"),
    ],
)
def test_wrong_use_ends_in_a_sentence(ask, tmp_path, words, name, sentence):
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "latin").write_bytes(b"\xe9t\xe9")
    done = ask(*words, name=name)
    assert done.exit_code == 2
    assert sentence in done.stderr
