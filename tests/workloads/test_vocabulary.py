"""Cuts keep what they say, numbers follow lines, and a cut that leaves nothing is refused."""

import gzip
import zipfile

import pytest

from legroom.errors import UsageError
from legroom.workloads.readers.files import read_content
from legroom.workloads.text.lines import decode, join_parallel, number_lines, split_tabs
from legroom.workloads.text.vocabulary import Cut, keep, learn_pieces, number

LINES = ["", "the cat saw the dog", "a\0 b", "", "the dog"]


def test_lines_are_numbered_apart_whatever_they_hold():
    lines = number_lines(LINES, "spaces")
    assert lines.rows.lengths.tolist() == [0, 5, 2, 0, 2]
    assert [lines.types[place] for place in lines.rows.flat] == [
        "the",
        "cat",
        "saw",
        "the",
        "dog",
        "a",
        "b",
        "the",
        "dog",
    ]
    assert lines.counts()["the"] == 3


def test_encoded_lines_keep_their_borders_with_whole_words_and_with_pieces():
    lines = number_lines(LINES, "spaces")
    words = lines.encode(number(["the", "dog"]))
    assert words.lengths.tolist() == [0, 5, 2, 0, 2]
    assert words.flat.tolist() == [2, 1, 1, 2, 3, 1, 1, 2, 3]
    pieces = lines.encode(learn_pieces(lines.counts(), 0))
    assert pieces.lengths.tolist() == [0, 15, 2, 0, 6]


def test_cuts_keep_the_frequent_or_the_rare():
    counts = {"the": 50, "dog": 7, "cat": 7, "emu": 1}
    assert keep(counts, Cut(), "it") == ["the", "cat", "dog", "emu"]
    assert keep(counts, Cut(min_frequency=7), "it") == ["the", "cat", "dog"]
    assert keep(counts, Cut(common_limit=7), "it") == ["cat", "dog", "emu"]
    assert keep(counts, Cut(num_words=2), "it") == ["the", "cat"]


def test_a_threshold_that_leaves_nothing_is_refused_with_what_there_is():
    with pytest.raises(UsageError, match=r"min_frequency=9 .*leave no word of the text: its words occur 1 to 8 times"):
        keep({"a": 8, "b": 1}, Cut(min_frequency=9), "the text")


def test_merges_add_as_many_pieces_and_words_never_seen_are_spelt():
    counts = number_lines(["low low lower newest newest widest"], "spaces").counts()
    without, some = learn_pieces(counts, 0), learn_pieces(counts, 4, words=["lowest", "xyz"])
    assert some.num_codes == without.num_codes + 4
    assert 1 not in some.codes["lowest"]
    assert set(some.codes["xyz"]) == {1}
    assert len(some.codes["low"]) < len(without.codes["low"]) == 3


def test_packed_text_is_read_and_damage_is_told(tmp_path):
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"salut"))
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as archive:
        archive.writestr("in/fra.txt", "salut")
        archive.writestr("about.txt", "more words than the other")
    assert read_content(tmp_path / "a.gz") == read_content(tmp_path / "b.zip", "fra.txt") == b"salut"
    for name in ("a.gz", "b.zip"):
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:-9])
        with pytest.raises(UsageError, match=r"bytes and is truncated or damaged: .* Get it from there"):
            read_content(tmp_path / name, way_forward="Get it from there")


def test_bytes_that_are_no_utf8_are_named_by_line(tmp_path):
    with pytest.raises(UsageError, match=r"x is no text in UTF-8: byte 0xe9 in line 2"):
        decode("a\nété".encode("latin1"), "x")


def test_lines_that_do_not_pair_are_refused():
    with pytest.raises(UsageError, match=r"en has 2 lines and fr 1"):
        join_parallel("a\nb\n", "c\n", "en", "fr")
    with pytest.raises(UsageError, match=r"has no tab in line 2: 'b'"):
        split_tabs("a\tc\nb\n", "x")
    assert split_tabs("a\tc\tCC BY\n", "x") == (["a"], ["c"])
