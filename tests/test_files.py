"""Files: a disk that takes no more is told as such, with the path, and what was there before stays whole."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from legroom.errors import CannotWrite
from legroom.files import replacing

JOB = f"{Path(__file__).parent / 'jobs' / 'plain.py'}:job"
# Without bytecode: Python would leave files of it cut off at the limit, for all who come after.
LIMITED = (
    "import os, resource, sys\n"
    "os.environ['PYTHONDONTWRITEBYTECODE'] = '1'\n"
    "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)\n"
    "os.execv(sys.executable, [sys.executable, '-m', 'legroom', *sys.argv[2:]])"
)


def train(folder, most_bytes, *more):
    """The command where no file may become larger than that."""
    words = [sys.executable, "-c", LIMITED, str(most_bytes), "train", JOB, "--device", "cpu", "--json"]
    return subprocess.run([*words, "--out", str(folder), *more], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(
    ("most_bytes", "name"), [(500, "logbook.jsonl"), (4_000, "best.pt"), (14_000, "checkpoint.pt")]
)
def test_a_disk_that_takes_no_more_is_told_with_the_path(tmp_path, most_bytes, name):
    done = train(tmp_path / "o", most_bytes, "--steps", "500")
    assert done.returncode == 2, done.stderr
    assert f"Cannot write {tmp_path / 'o' / name}: File too large. Make room there" in done.stderr
    assert json.loads(done.stdout)["error_type"] == "CannotWrite"
    assert not list((tmp_path / "o").glob(".*.part"))


def test_a_report_that_finds_no_room_costs_a_note_that_names_it(tmp_path):
    done = train(tmp_path / "o", 100_000)
    assert done.returncode == 0, done.stderr
    assert f"Cannot write {tmp_path / 'o' / 'report.html'}: File too large" in json.loads(done.stdout)["notes"][-1]


@pytest.mark.parametrize("write", [lambda file: file.write(b"x"), lambda file: torch.save(torch.zeros(9), file)])
def test_a_full_disk_is_called_that_and_leaves_what_was_there(tmp_path, write):
    path = tmp_path / "best.pt"
    path.write_bytes(b"before")
    (tmp_path / ".best.pt.part").symlink_to("/dev/full")
    with (
        pytest.raises(CannotWrite, match=rf"Cannot write {path}: the disk is full\. Make room there"),
        replacing(path) as file,
    ):
        write(file)
    assert path.read_bytes() == b"before"
    assert [each.name for each in tmp_path.iterdir()] == ["best.pt"]
