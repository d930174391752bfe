"""Documents name what is there: files, modules, commands and their options, plans and examples that still run."""

import ast
import doctest
import functools
import re
import shlex
from pathlib import Path

import pytest
import typer

import legroom.api
from legroom.cli.app import app
from legroom.plan_file import read_plan, write_plan

ROOT = Path(__file__).parents[1]
SHOWN = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
DOCUMENTS = sorted([*SHOWN, *ROOT.glob("validation/*/README.md")])
SCRIPTS = sorted([*ROOT.glob("benchmarks/*.py"), *ROOT.glob("examples/*.py")])
NOT_HERE = re.compile(r"latency|^(my_job|x)\.py$")
"""The question that CONTRIBUTING.md shows, and files of a user."""
COMMAND = re.compile(r"(?:^ {4}(?:\$ )?|^\$ |`)(?:[A-Z_]+=\S+ )*legroom ([a-z]+)\b([^`\n]*)", re.MULTILINE)
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
OF_OTHERS = {"--strict", "--check"}
"""Options of mypy, and of a script whose name stands a line above."""
COMMANDS = typer.main.get_command(app).commands


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


def anchors_of(path):
    """What links into a document may name: its headings, as they are made into addresses."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_link_of_a_document_leads_somewhere(path):
    text = path.read_text()
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if not link.startswith("http")]
    links += re.findall(r"`(\.\./[\w/.-]*)", text)
    for link in links:
        name, _, anchor = link.partition("#")
        target = path.parent / name if name else path
        assert target.exists(), link
        assert not anchor or anchor in anchors_of(target), link


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_name_that_a_document_imports_exists(path):
    found = re.findall(r"^(?:>>> )?from (legroom[\w.]*) import ([\w, ]+)", path.read_text(), re.MULTILINE)
    named = [(module, name.split()[0]) for module, names in found for name in names.split(",") if name.strip()]
    ours = [(module, name) for module, name in named if not NOT_HERE.search(f"{module} {name}")]
    assert [f"{module}: {name}" for module, name in ours if name not in names_of(module)] == []


def options_of(name):
    """All options of a command, in both forms of those that can be turned off."""
    return {option for word in COMMANDS[name].params for option in (*word.opts, *word.secondary_opts)} | {"--help"}


@pytest.mark.parametrize("path", SHOWN, ids=lambda path: path.name)
def test_every_command_and_option_that_a_document_shows_is_one(path, monkeypatch):
    monkeypatch.chdir(ROOT)
    text = path.read_text()
    for name, words in COMMAND.findall(text):
        if NOT_HERE.search(name):
            continue
        assert set(OPTION.findall(words)) <= options_of(name), f"legroom {name}{words}"
    for line in re.findall(r"^(?: {4}(?:\$ )?|\$ )(?:[A-Z_]+=\S+ )*legroom (.*)$", text, re.MULTILINE):
        if "[" not in line:  # a synopsis
            name, *words = shlex.split(re.split(r"\s+#|\s\|\s", line)[0])
            COMMANDS[name].make_context(name, words)
    known = {option for name in COMMANDS for option in options_of(name)} | {"--version"} | OF_OTHERS
    ours = [line for line in text.splitlines() if not re.search(r"python |pytest|benchmarks/|pip |make ", line)]
    assert set(OPTION.findall("\n".join(ours))) <= known


@pytest.mark.parametrize("path", SHOWN, ids=lambda path: path.name)
def test_every_script_that_a_document_runs_takes_the_options_it_is_given(path):
    for name, words in re.findall(r"python (benchmarks/\w+\.py)([^`\n]*)", path.read_text()):
        taken = (ROOT / name).read_text()
        assert [option for option in OPTION.findall(words) if f'"{option}"' not in taken] == [], name


@functools.cache
def names_in(path):
    """What a module has at its top, and what a package holds."""
    found = {child.stem for child in path.parent.iterdir()} if path.stem == "__init__" else set()
    for node in ast.parse(path.read_text()).body:
        is_plain = isinstance(node, ast.FunctionDef | ast.ClassDef)
        found |= {node.name} if is_plain else set()
        for part in () if is_plain else ast.walk(node):
            if isinstance(part, ast.alias):
                found.add(part.asname or part.name)
            elif isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                found.add(part.id)
            elif isinstance(part, ast.FunctionDef | ast.ClassDef):
                found.add(part.name)
    return found


def names_of(module):
    """The names that can be imported from one of our modules."""
    path = ROOT / "src" / module.replace(".", "/")
    found = names_in(path / "__init__.py" if path.is_dir() else path.with_suffix(".py"))
    return found | set(legroom.__all__) if module == "legroom" else found


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_name_that_a_script_takes_of_legroom_exists(path):
    tree = ast.parse(path.read_text())
    froms = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    wanted = [(node.module, alias.name) for node in froms for alias in node.names]
    reached = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)]
    modules = {"legroom": "legroom", "api": "legroom.api"}
    wanted += [(modules[node.value.id], node.attr) for node in reached if node.value.id in modules]
    ours = [(module, name) for module, name in wanted if module.split(".")[0] == "legroom"]
    assert [f"{module}: {name}" for module, name in ours if name not in names_of(module)] == []


def test_the_examples_of_planted_machines_run(tmp_path):
    path = ROOT / "docs/testing.md"
    assert doctest.testfile(str(path), module_relative=False).failed == 0
    examples = re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL)
    planted = [text for text in examples if "def test_" in text and "FakeMachine" in text]
    assert len(planted) >= 3
    for number, text in enumerate(planted):
        scope = {}
        exec(text, scope)
        for name, test in list(scope.items()):
            if name.startswith("test_"):
                test(tmp_path / str(number))


def test_the_plan_that_is_shown_is_written_as_plans_are_now(tmp_path):
    shown = ROOT / "docs/plan.toml"
    write_plan(read_plan(shown), tmp_path / "plan.toml")
    assert (tmp_path / "plan.toml").read_text() == shown.read_text()
    (beginning,) = re.findall(r"```toml\n(.*?)```", (ROOT / "docs/plan.md").read_text(), re.DOTALL)
    assert shown.read_text().startswith(beginning)
