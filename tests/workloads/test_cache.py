"""What was made once is not made again, is memory-mapped, and never stands in the way."""

import numpy as np
import pytest

from legroom.workloads.readers.cache import FACTS, Prepared, cache_folder, load_or_make


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("LEGROOM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


class Maker:
    """Counts how often it is asked."""

    def __init__(self):
        self.num_made = 0

    def __call__(self):
        self.num_made += 1
        return Prepared(arrays={"train": np.arange(5)}, facts={"size": 5})


def test_the_second_time_reads_a_map_of_the_first():
    make = Maker()
    load_or_make([b"text"], {"words": 3}, make)
    found = load_or_make([b"text"], {"words": 3}, make)
    assert make.num_made == 1
    assert isinstance(found.arrays["train"], np.memmap)
    assert found.arrays["train"].tolist() == [0, 1, 2, 3, 4]
    assert found.facts == {"size": 5}


def test_other_text_or_options_are_made_anew():
    make = Maker()
    for contents, options in [([b"a"], {}), ([b"b"], {}), ([b"a"], {"words": 1}), ([b"a", b""], {}), ([b"a"], {})]:
        load_or_make(contents, options, make)
    assert make.num_made == 4


def test_a_damaged_entry_is_made_anew_and_mended(folder):
    make = Maker()
    load_or_make([b"a"], {}, make)
    next(folder.glob(f"*/{FACTS}")).write_text("{")
    assert load_or_make([b"a"], {}, make).facts == {"size": 5}
    load_or_make([b"a"], {}, make)
    assert make.num_made == 2


def test_a_cache_that_cannot_be_written_costs_time_only(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LEGROOM_CACHE", str(tmp_path / "file" / "below"))
    assert load_or_make([b"a"], {}, Maker()).facts == {"size": 5}


def test_nothing_half_written_stays(folder):
    load_or_make([b"a"], {}, Maker())
    assert [entry.name for entry in folder.iterdir() if entry.name.startswith(".")] == []


def test_the_folder_is_the_users_cache(monkeypatch, tmp_path):
    monkeypatch.delenv("LEGROOM_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "legroom"
