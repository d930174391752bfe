"""Documents name files and modules that are there, and show a plan that is read and written as plans are."""

import re
from pathlib import Path

import pytest

from legroom.plan_file import read_plan, write_plan

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("validation/*/README.md")])
NOT_HERE = re.compile(r"latency|^(my_job|x)\.py$")
"""The question that CONTRIBUTING.md shows, and files of a user."""


def is_there(name):
    """Whether a path is one of the repository, of the package, or of a question or its tests."""
    places = (ROOT, ROOT / "src/legroom", *ROOT.glob("src/legroom/questions/*"), *ROOT.glob("tests/questions/*"))
    return any((place / name).exists() for place in places)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_path_that_a_document_names_exists(path):
    text = path.read_text()
    named = re.findall(r"`((?:\w+/)*\w+\.py)\b", text)
    named += re.findall(r"`((?:src|tests|docs|benchmarks|validation|examples)/[\w/.-]*)", text)
    assert [name for name in named if not NOT_HERE.search(name) and not is_there(name)] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_name_that_a_document_imports_exists(path):
    for line in re.findall(r"^(?:>>> )?(from legroom[\w.]* import [\w, ]+)", path.read_text(), re.MULTILINE):
        if not NOT_HERE.search(line):
            exec(line, {})


def test_the_plan_that_is_shown_is_written_as_plans_are_now(tmp_path):
    shown = ROOT / "docs/plan.toml"
    write_plan(read_plan(shown), tmp_path / "plan.toml")
    assert (tmp_path / "plan.toml").read_text() == shown.read_text()
    (beginning,) = re.findall(r"```toml\n(.*?)```", (ROOT / "docs/plan.md").read_text(), re.DOTALL)
    assert shown.read_text().startswith(beginning)
