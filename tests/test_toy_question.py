"""A question is one folder and three lines elsewhere: the one that CONTRIBUTING.md shows is built from it and asked."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
FILES = dict(re.findall(r"^`(\S+)`\n\n```python\n(.*?)```$", TEXT, re.DOTALL | re.MULTILINE))
LINES = re.findall(r"^ (\S+)\n\+(.*)$", TEXT[TEXT.index("```diff") :], re.MULTILINE)
KINDS = (r'    "\w+",$', r"from legroom\.questions\.", r"\| `")
"""Lines that the new ones are of the kind of."""
SHARED = ("test_architecture.py", "test_advice_again.py", "reports/conftest.py", "reports/test_sections.py")
"""Tests that take in every question there is."""
SEEN = """
import json, pathlib, sys
from typer.testing import CliRunner
from legroom.cli.app import app
from legroom.reports.views import to_json
from legroom.session import advise_again

def said(*words):
    return CliRunner().invoke(app, words, catch_exceptions=False).stdout

folder, *words = sys.argv[1:]
seen = {
    "advised": to_json(advise_again(pathlib.Path(folder), "latency")),
    "resumed": said(*words, "--resume"),
    "shown": json.loads(said("report", folder, "--json")),
    "has_torch": "torch" in sys.modules,
}
print(json.dumps(seen))
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of package and logbook page with the question added, and a way to run Python there."""
    root = tmp_path_factory.mktemp("copy")
    shutil.copytree(ROOT / "src", root / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    shutil.copytree(ROOT / "docs", root / "docs")
    (root / "tests/reports").mkdir(parents=True)
    for name in ("pyproject.toml", *(f"tests/{name}" for name in SHARED)):
        shutil.copy(ROOT / name, root / name)
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "src/legroom/questions/latency/__init__.py").touch()
    for name, line in LINES:
        insert(root / name, line)
    return root


def insert(path, line):
    """The line below the last one of its kind."""
    kind, lines = next(kind for kind in KINDS if re.match(kind, line)), path.read_text().splitlines()
    place = max(number for number, other in enumerate(lines) if re.match(kind, other))
    path.write_text("\n".join([*lines[: place + 1], line, *lines[place + 1 :], ""]))


def run(copy, *words):
    env = {**os.environ, "PYTHONPATH": str(copy / "src"), "NO_COLOR": "1", "COLUMNS": "200"}
    done = subprocess.run([sys.executable, *map(str, words)], cwd=copy, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_it_takes_one_folder_and_three_lines_elsewhere():
    assert {str(Path(name).parent) for name in FILES} == {"src/legroom/questions/latency", "tests/questions/latency"}
    assert [name for name, _ in LINES] == ["src/legroom/questions/__init__.py", "src/legroom/api.py", "docs/logbook.md"]


def test_it_is_asked_by_its_command_seen_on_the_page_and_advised_again(copy, tmp_path):
    out = tmp_path / "o"
    words = ["latency", "digits", "--device", "cpu", "--batch-size", "4", "--out", out]
    answer = json.loads(run(copy, "-m", "legroom", *words, "--json"))
    assert len(answer["points"]) == 9
    assert answer["samples_per_second"] == pytest.approx(4 / answer["median_seconds"])
    page = (out / "report.html").read_text()
    assert '<section id="latency">' in page
    assert answer["summary"] in page
    seen = json.loads(run(copy, "-c", SEEN, out, *words))
    assert seen["advised"] == answer
    assert "in batches of 4" in seen["resumed"]
    assert [part["question"] for part in seen["shown"]["sections"]] == ["latency"]
    assert not seen["has_torch"]


def test_its_own_test_and_those_of_all_questions_pass(copy):
    # Left out are those that start processes, and those about other questions alone.
    rules = "every_question or torch_is_imported or one_way or law_that or kernel or command_line"
    words = ("-p", "no:cacheprovider", "-k", f"latency or time_forward or {rules}")
    assert "passed" in run(copy, "-m", "pytest", *words, "tests", "src/legroom/questions/latency")
