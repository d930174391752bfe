"""How benchmarks/devices.py makes rows of an answer, and that a slow loopback is gone at the end."""

import importlib.util
import json
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from legroom import api
from legroom.questions.devices.fake import FakeRing
from legroom.testing import FakeMachine, plant_host

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture
def script(monkeypatch):
    """The script, whose processes are planted."""
    found = importlib.util.spec_from_file_location("devices_benchmark", BENCHMARKS / "devices.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    ring = FakeRing(bandwidth=2e8, busy_cores=0.2)

    def planted(out):
        machine = FakeMachine(ring, num_samples=4096)
        return api.Run(out=out, engine=machine, host=plant_host(num_cores=4))

    monkeypatch.setattr(module, "api", SimpleNamespace(Run=planted, devices=api.devices))
    return module


def test_rows_hold_the_forecast_beside_what_was_timed(script, capsys):
    rows = list(script.rows_of("conv:32", None, 0, 0.0))
    assert {(row["num_devices"], row["scaling"]) for row in rows} == {
        (num, scaling) for num in (2, 4) for scaling in ("strong", "weak")
    }
    for row in rows:
        assert row["error"] == pytest.approx(row["forecast_seconds"] / row["seconds"] - 1)
        assert abs(row["error"]) < 0.1, "the planted ring is what is forecast"
        assert row["buckets_seconds"] > 0
    assert len(capsys.readouterr().out.splitlines()) == len(rows)


def test_the_script_writes_a_row_a_step_and_sums_them_up(script, tmp_path, monkeypatch, capsys):
    out = tmp_path / "rows.jsonl"
    words = ["devices.py", "--jobs", "conv:32,wide:16", "--most", "2", "--delay", "2ms", "--out", str(out)]
    monkeypatch.setattr(script.sys, "argv", words)
    script.main()
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["job"] for row in rows] == ["conv:32", "conv:32", "wide:16", "wide:16"]
    assert {row["link"] for row in rows} == {"2ms"}
    assert capsys.readouterr().out.splitlines()[-1].startswith("4 steps: off by")
    monkeypatch.setattr(script.sys, "argv", [*words[:3], "--most", "1"])
    script.main()
    assert capsys.readouterr().out == "No step of several processes was timed\n"


def test_errors_of_steps_that_expose_nothing_for_sure_are_left_out(script):
    resolved = {"exposed_seconds": 0.01, "exposed_range": [0.005, 0.02]}
    assert script.exposed_error(0.012, resolved) == pytest.approx(0.2)
    assert script.exposed_error(0.012, {**resolved, "exposed_range": [-0.001, 0.02]}) is None


@pytest.mark.parametrize("refused", ["netns add", "qdisc add", ""])
def test_a_slow_loopback_is_removed_and_where_none_may_be_made_that_is_said(script, monkeypatch, capsys, refused):
    asked = []

    def run(command, **words):
        asked.append(" ".join(command))
        if refused and refused in asked[-1]:
            raise subprocess.CalledProcessError(1, command)
        return SimpleNamespace(returncode=7)

    monkeypatch.setattr(script.subprocess, "run", run)
    assert script.run_slowed("2gbit") == (0 if refused else 7)
    assert ("skipped" in capsys.readouterr().out) == bool(refused)
    if refused != "netns add":
        assert asked[-1] == f"ip netns del {script.NAMESPACE}"
    assert any("rate 2gbit" in command for command in asked) or refused == "netns add"


@pytest.mark.parametrize(("text", "seconds"), [("2ms", 0.002), ("30us", 3e-5), ("1.5s", 1.5)])
def test_times_are_read_with_their_unit(script, text, seconds):
    assert script.seconds_of(text) == pytest.approx(seconds)
