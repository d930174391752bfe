"""What tests share: job files, a folder of records, and a way to run the command as a user does."""

import gc
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest
from typer.testing import CliRunner

import legroom.host
from legroom.engines.local import LocalEngine

# Before anything imports torch: idle threads that spin make small steps many times slower on busy cores.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# No test cuts the power, which alone would tell: 4 ms for each of 30,000 records of planted machines. Children do wait.
os.fsync = lambda descriptor: None

# A look at what other programs use takes 0.4 s, and what it sees is no test's own; tests of it plant or import theirs.
legroom.host.read_busy_cores = lambda: 0.0


@dataclass(frozen=True)
class Ran:
    """What a command did."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> dict[str, Any]:
        """The one object on stdout."""
        return json.loads(self.stdout)


@pytest.fixture
def legroom(tmp_path):
    """Runs `legroom ...` in an empty folder."""

    def run(*words: object, env: dict[str, str] | None = None) -> Ran:
        done = subprocess.run(
            [sys.executable, "-m", "legroom", *map(str, words)],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "NO_COLOR": "1", "COLUMNS": "200", **(env or {})},
            timeout=300,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture(scope="session")
def one_folder(tmp_path_factory):
    """The working folder of all that `legroom_here` runs."""
    return tmp_path_factory.mktemp("here")


@pytest.fixture
def legroom_here(one_folder, monkeypatch):
    """Runs `legroom ...` in this process and an empty folder: its children are real, and forked from one nursery.

    A process of its own costs an import of torch each time, and shows nothing more of how words are read, what is
    printed and which exit code comes: what is about the process itself has the fixture `legroom`.
    """
    from legroom.cli.app import app

    for left in one_folder.iterdir():
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    monkeypatch.chdir(one_folder)

    def run(*words: object, env: dict[str, str] | None = None) -> Ran:
        more = {"NO_COLOR": "1", "COLUMNS": "200", **(env or {})}
        ran = CliRunner().invoke(app, list(map(str, words)), env=more, catch_exceptions=False)
        return Ran(ran.exit_code, ran.stdout, ran.stderr)

    return run


class Forking(LocalEngine):
    """Forks children, in milliseconds, that would be started anew."""

    def start(self, address, environment, *, alone=False):
        return super().start(address, environment)


@pytest.fixture
def forking(monkeypatch):
    """Questions fork all of their children: for tests in which these are to answer, not to be measured well."""
    monkeypatch.setattr("legroom.session.LocalEngine", Forking)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers():
    """One more than cores: a third of the time goes by in waiting for processes that hang, are killed or time out."""
    return 1 + len(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1))


def pytest_collection_finish():
    """Spare the collector what is imported by now: each of its walks over torch's modules takes 0.2 s."""
    gc.collect()
    gc.freeze()
