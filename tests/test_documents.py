"""Documents name files and modules that are there."""

import re
from pathlib import Path

import pytest

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
