"""What tests share: job files, a folder of records, and a way to run the command as a user does."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest

# Before anything imports torch: idle threads that spin make small steps many times slower on busy cores.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")


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
