"""Every built-in job is listed with its options, its true number of parameters, and where its data come from."""

from typing import get_args

import pytest
import torch

from legroom.errors import UsageError
from legroom.job_address import _find_function, address_of, load_job
from legroom.workloads import WORKLOADS, jobs
from legroom.workloads.readers.published import PUBLISHED, look_for
from legroom.workloads.text import pairs

OPTIONS = {name: {"data": "synthetic"} for name in WORKLOADS if name != "digits"}
LISTED = {workload.name: workload for workload in jobs()}
FREE_WORDS = {"model": "resnet34"}
"""A value for options that take any word and read no file."""
NEEDS_TEXT = {"data", "pairs", "source", "target", "text", "images", "clips", "tokens", "min_frequency", "common_limit"}
"""Options that change nothing of a stand-in."""


@pytest.mark.parametrize("name", WORKLOADS)
def test_each_job_has_what_questions_about_learning_need(name):
    job = load_job(name, OPTIONS.get(name))
    assert set(job.resize) == {"width", "depth"}
    assert job.score is not None
    assert job.valid_data is not None
    assert bool(job.notes) == (name in OPTIONS)


def test_the_list_names_options_with_defaults():
    assert tuple(LISTED) == WORKLOADS
    assert LISTED["digits"].options == {"hidden": "128", "model": "'lstm'"}
    assert LISTED["ptb-small"].options["data"] == "''"
    assert all(workload.summary for workload in LISTED.values())


@pytest.mark.parametrize("name", WORKLOADS)
def test_each_listed_number_of_parameters_is_that_of_the_model(name):
    listed = LISTED[name].parameters
    counted = {words: count(name, dict(word.split("=") for word in words.split())) for words in listed}
    assert listed == counted


@pytest.mark.parametrize("name", WORKLOADS)
def test_options_that_change_the_number_of_parameters_are_named_and_no_others(name, monkeypatch):
    monkeypatch.setattr(pairs, "NUM_SYNTHETIC", 300)  # as many words, read in a hundredth of the time
    usual = count(name, {})
    changing = {option for option, words in other_values(name).items() if usual not in [count(name, w) for w in words]}
    assert changing == set(LISTED[name].sized_by) - NEEDS_TEXT


def other_values(name):
    """Of each option that can be tried on a stand-in, other values than its own."""
    found = {}
    for option, hint in _find_function(address_of(name)).__annotations__.items():
        usual = LISTED[name].options.get(option, "").strip("'")
        if hint is int:
            found[option] = [{option: str(2 * int(usual) + 3)}]
        elif get_args(hint):
            found[option] = [{option: word} for word in get_args(hint) if word != usual]
        elif hint is bool or option in FREE_WORDS:
            found[option] = [{option: FREE_WORDS.get(option, "true")}]
    return {option: words for option, words in found.items() if option not in NEEDS_TEXT}


def count(name, options):
    job = load_job(name, OPTIONS.get(name, {}) | options)
    with torch.device("meta"):  # shapes alone: ptb-large has 264 MB
        return sum(parameter.numel() for parameter in job.model().parameters())


PLACES = [
    ("mnist-lstm", "mnist"),
    ("ptb-small", "ptb"),
    ("translation", "small-vocab"),
    ("word-lm", "wikitext-2"),
    ("cifar-resnet18", "cifar10"),
]


@pytest.mark.parametrize(("name", "known"), PLACES)
def test_data_are_listed_as_found_where_the_job_finds_them(name, known, tmp_path):
    folder = tmp_path / PUBLISHED[known].folder
    first, *others = (names[0] for names in PUBLISHED[known].names)
    folder.mkdir()
    for each in others:
        (folder / each).touch()
    assert not look_for(known, str(tmp_path)).found
    with pytest.raises(UsageError, match=f"There is no {first}"):
        load_job(name, {"data": str(tmp_path)})
    (folder / first).touch()
    assert look_for(known, str(tmp_path)).found
    with pytest.raises(UsageError, match=r"^(?!There is no)"):  # it is found, and empty
        load_job(name, {"data": str(tmp_path)}).train_data()


def test_the_folder_of_data_sets_is_that_of_the_variable(tmp_path, monkeypatch):
    monkeypatch.delenv("LEGROOM_DATA", raising=False)
    assert look_for("ucf101").path == "$LEGROOM_DATA/ucf101"
    assert not look_for("ucf101").found
    monkeypatch.setenv("LEGROOM_DATA", str(tmp_path))
    (tmp_path / "ucf101" / "Archery").mkdir(parents=True)
    assert look_for("ucf101").path == str(tmp_path / "ucf101")
    assert look_for("ucf101").found


def test_data_that_come_in_a_package_are_found_there():
    assert look_for("digits").found
    assert look_for("standard-library").found
