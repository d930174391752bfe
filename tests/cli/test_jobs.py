"""The list of built-in jobs tells parameters and data, as JSON and within the width of a terminal."""

import json

import pytest
from typer.testing import CliRunner

from legroom.cli import app


def test_the_json_carries_parameters_and_data(tmp_path):
    (tmp_path / "ucf101" / "Archery").mkdir(parents=True)
    answer = json.loads(CliRunner().invoke(app, ["jobs", "--json", "--data", str(tmp_path)]).stdout)
    jobs = {job["name"]: job for job in answer["jobs"]}
    assert jobs["cifar-resnet18"]["parameters"] == {"": 11_173_962}
    assert jobs["cifar-resnet18"]["sized_by"] == ["width", "depth"]
    (video,), (cifar,) = jobs["video"]["data"], jobs["cifar-resnet18"]["data"]
    assert (video["path"], video["found"]) == (str(tmp_path / "ucf101"), True)
    assert (cifar["found"], cifar["published_at"][:29]) == (False, "https://www.cs.toronto.edu/~k")


@pytest.mark.parametrize("width", [80, 140])
def test_the_list_fits_the_terminal(width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.delenv("LEGROOM_DATA", raising=False)
    lines = CliRunner().invoke(app, ["jobs"]).stdout.splitlines()
    assert max(map(len, lines)) <= width
    assert any(line.split() == ["parameters", "4,653,200;", "changed", "by", "hidden,", "layers"] for line in lines)
    assert any("$LEGROOM_DATA/ptb: not found" in line for line in lines)
