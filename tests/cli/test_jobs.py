"""The list of built-in jobs tells parameters and data, as JSON and within the width of a terminal."""

import json

import pytest
from typer.testing import CliRunner

from legroom.cli.app import app


def test_the_json_carries_parameters_and_data(tmp_path):
    (tmp_path / "ucf101" / "Archery").mkdir(parents=True)
    answer = json.loads(CliRunner().invoke(app, ["jobs", "--json", "--data", str(tmp_path)]).stdout)
    jobs = {job["name"]: job for job in answer["jobs"]}
    assert jobs["cifar-resnet18"]["parameters"] == {"": 11_173_962}
    assert jobs["cifar-resnet18"]["sized_by"] == ["width", "depth"]
    (video,), (cifar,) = jobs["video"]["data"], jobs["cifar-resnet18"]["data"]
    assert (video["path"], video["found"]) == (str(tmp_path / "ucf101"), True)
    assert (cifar["found"], cifar["published_at"][:29]) == (False, "https://www.cs.toronto.edu/~k")


def data_of(job, folder):
    """Where the job's own data set is, and whether it was found, in the folder."""
    answer = json.loads(CliRunner().invoke(app, ["jobs", "--json", "--data", str(folder)]).stdout)
    place = next(each for each in answer["jobs"] if each["name"] == job)["data"][0]
    return place["path"], place["found"]


@pytest.mark.parametrize(
    ("job", "names"),
    [
        ("image-folder", ["cat/1.jpg", "dog/1.PNG"]),
        ("image-folder", ["train/cat/1.jpg", "train/dog/1.jpg", "val/cat/2.jpg", "val/dog/2.jpg"]),
        ("video", ["run/1.npy", "jump/a/1.jpg"]),
        ("speech", ["recordings.tar.xz"]),
        ("speech", ["7_theo_12.wav"]),
        ("speech", ["dev-clean/84/121/84-121.trans.txt", "dev-clean/84/121/84-121-0000.wav"]),
    ],
)
def test_a_set_right_in_the_data_folder_is_found_where_the_job_would_read_it(tmp_path, job, names):
    make(tmp_path, names)
    assert data_of(job, tmp_path) == (str(tmp_path), True)


@pytest.mark.parametrize("names", [["mnist/a", "cat/1.jpg"], ["cat/1.jpg"], ["1.jpg", "2.jpg"], ["cat/a/1.npy"], []])
@pytest.mark.parametrize(
    ("job", "own"), [("image-folder", "caltech101-10"), ("video", "ucf101"), ("speech", "spoken-digits")]
)
def test_folders_that_the_job_would_refuse_are_no_set(tmp_path, job, own, names):
    make(tmp_path, names)
    assert data_of(job, tmp_path) == (str(tmp_path / own), False)


def make(folder, names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


@pytest.mark.parametrize("width", [80, 140])
def test_the_list_fits_the_terminal(width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.delenv("LEGROOM_DATA", raising=False)
    lines = CliRunner().invoke(app, ["jobs"]).stdout.splitlines()
    assert max(map(len, lines)) <= width
    assert any(line.split() == ["parameters", "4,653,200;", "changed", "by", "hidden,", "layers"] for line in lines)
    assert any("$LEGROOM_DATA/ptb: not found" in line for line in lines)
