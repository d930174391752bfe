"""The rules of the house: which folder may reach which, one child function a request, no torch at the start."""

import ast
import functools
import importlib
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import legroom.api
from legroom.questions import QUESTIONS
from legroom.requests import record_kinds
from legroom.testing.machine import kinds_of_fakes

SOURCE = Path(legroom.__file__).parent
OUTSIDE = ("questions", "api", "testing", "__init__", "__main__")
"""What may know questions; all else is shared by them."""
KERNEL = sorted({path.stem for path in SOURCE.iterdir() if path.suffix in (".py", "")} - {*OUTSIDE, "__pycache__"})
JOINING = {
    "plan": ("ask", "answer", "records"),
    "check": ("ask", "records"),
    "speed": ("records",),
    "devices": ("answer",),
}
"""Questions that are made of others; `speed` takes from memory's records which sizes ran, `devices` others' answers."""
NAMED = {"model_size", "ranking"}
"""Laws that stand on the shelf, which names the factors of the formula, though one question alone uses them."""
NUMBERS = {"collections", "dataclasses", "functools", "itertools", "math", "numpy", "scipy", "statistics", "typing"}
"""What laws import of others: none reads a file, asks the time or draws at random."""
PUBLIC = {
    "advise_again": "docs/logbook.md: advice from a saved folder, on a machine without the device",
    "split_parameters": "docs/solvers.md: for jobs whose biases do not decay",
    "LawlessLearner": "a planted truth in which no law holds, for tests of searches",
    "evidence_of": "benchmarks/size.py: laws to plant, by which the question and its tests are judged",
}
"""Functions and classes that nothing of ours calls, and who does."""
BESIDE_TORCH = ("child", "training", "workloads", "adapters")
DEFINED = re.compile(r"^(@(?:app|atexit)[^\n]*\n)?(?:def|class) ((?!__)\w+).*?(?=^[^\s)]|\Z)", re.DOTALL | re.MULTILINE)
"""A function or class with its text, and a decorator that hands it to others; Python calls those with __ itself."""


def names(node: ast.AST) -> set[str]:
    """Full names of all modules that a piece of code imports, at any depth."""
    found = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Import):
            found |= {alias.name for alias in part.names}
        elif isinstance(part, ast.ImportFrom) and part.module:
            found |= {part.module} | {f"{part.module}.{alias.name}" for alias in part.names}
    return found


@functools.cache
def imported(path: Path) -> set[str]:
    """What a file imports, anywhere in it, for a type checker alone too."""
    return names(ast.parse(path.read_text()))


def at_load(path: Path) -> set[str]:
    """What is imported as the file is: by its own lines, not by its functions when they are called."""
    return names(ast.Module([node for node in ast.parse(path.read_text()).body if "Import" in type(node).__name__], []))


def files(*folders: str) -> list[Path]:
    """All files of some folders or modules; a rule about one that is gone would hold whatever happens."""
    found = [[*(SOURCE / name).rglob("*.py"), SOURCE / f"{name}.py"] for name in folders]
    there = sorted(path for paths in found for path in paths if path.is_file())
    assert there, f"{folders} is not there"
    return there


def ours(path: Path) -> set[str]:
    """What a file imports of legroom, without that word."""
    return {name.removeprefix("legroom.") for name in imported(path) if name.startswith("legroom.")}


@functools.cache
def all_words() -> Counter[str]:
    """How often each word stands in the code and its page; what tests and benchmarks alone call, nobody needs."""
    paths = [path for ending in ("py", "js", "j2") for path in SOURCE.rglob(f"*.{ending}")]
    return Counter(word for path in paths for word in re.findall(r"\w+", path.read_text()))


@functools.cache
def joins(question: str) -> dict[tuple[str, str], Path]:
    """The parts of other questions that one imports, each with a file that does."""
    found: dict[tuple[str, str], Path] = {}
    for path in files(f"questions/{question}"):
        for name in ours(path):
            first, other, part = (*name.split("."), "", "")[:3]
            if first == "questions" and other in QUESTIONS and other != question:
                found[other, part] = path
    return found


def test_torch_is_imported_beside_the_job_alone():
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).parts
        beside = parts[0] in BESIDE_TORCH or (parts[0] == "questions" and parts[2:] and parts[2].startswith("child"))
        assert beside or "torch" not in {name.split(".")[0] for name in imported(path)}, path


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_reaches_no_child(question):
    for path in files(f"questions/{question}"):
        if not path.relative_to(SOURCE / "questions" / question).parts[0].startswith("child"):
            for name in ours(path):
                assert name.split(".")[0] != "child", f"{path} imports {name}"
                assert name.split(".")[:3] != ["questions", question, "child"], f"{path} imports {name}"


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_reaches_no_other_but_to_join_it(question):
    parts = {part for _, part in joins(question) if part}
    assert parts == set(JOINING.get(question, ())), joins(question)


FORBIDDEN = {
    "host": {"laws", "training", "engines", "reports", "api", "cli", "child", "workloads", "adapters", "questions"},
    "child": {"laws", "engines", "reports", "api", "cli", "workloads", "adapters", "questions", "session", "logbook"},
    "questions": {"api", "testing", "adapters"},
    "reports": {"training", "engines", "api", "cli", "child", "adapters"},
    "training": {"engines", "reports", "api", "cli", "child", "workloads", "adapters"},
    "engines": {"reports", "api", "cli", "child", "training"},
    "workloads": {"engines", "reports", "api", "cli", "child", "adapters"},
    "adapters": {"engines", "reports", "api", "cli", "child", "workloads"},
}


@pytest.mark.parametrize("folder", FORBIDDEN)
def test_imports_run_one_way(folder):
    for path in files(folder):
        reached = {name.split(".")[0] for name in ours(path)}
        assert not reached & FORBIDDEN[folder], f"{path} imports {reached & FORBIDDEN[folder]}"
    assert {*KERNEL, *OUTSIDE} >= FORBIDDEN[folder], "nothing has such a name"


def test_laws_know_numbers_alone():
    for path in files("laws"):
        assert {name.split(".")[0] for name in ours(path)} <= {"laws", "units", "errors"}, path
        others = {name.split(".")[0] for name in imported(path)} - {"legroom"}
        assert others <= NUMBERS, f"{path} imports {others - NUMBERS}"


def test_a_law_that_one_question_alone_uses_lives_there():
    users = {path.stem: set() for path in files("laws") if path.stem != "__init__"}
    for path in sorted(SOURCE.rglob("*.py")):
        who = path.relative_to(SOURCE).with_suffix("").parts
        for law in {name.split(".")[1] for name in ours(path) if name.startswith("laws.")}:
            users[law] |= {who[1]} if who[0] in ("questions", "laws") else {who[0], "what questions share"}
    assert {law for law, who in users.items() if len(who) < 2} == NAMED


@pytest.mark.parametrize("folder", [*KERNEL, "questions/__init__", "questions/base"])
def test_the_kernel_knows_no_question(folder):
    for path in files(folder):
        for name in ours(path):
            first, *rest = name.split(".")
            assert not (first == "questions" and rest and rest[0] in QUESTIONS), f"{path} imports {name}"


def test_the_command_line_translates_and_no_more():
    allowed = {"cli", "api", "errors", "questions", "reports", "session", "texts", "__version__"}
    for path in files("cli"):
        reached = {name.split(".")[0] for name in ours(path)}
        assert reached <= allowed, f"{path} imports {reached - allowed}"


@pytest.mark.parametrize("kind", record_kinds())
def test_every_request_has_a_function_in_a_child_one_fake_and_a_line_in_the_docs(kind):
    assert [record_kinds()[kind].request in fake.ANSWERS for fake in kinds_of_fakes()].count(True) == 1
    module, _, function = record_kinds()[kind].answered_by.partition(":")
    assert callable(getattr(importlib.import_module(module), function))
    assert f"`{kind}`" in (SOURCE.parents[1] / "docs" / "logbook.md").read_text()


def unnamed(path: Path) -> list[str]:
    """Functions and classes of a file whose name stands nowhere but in their own text."""
    found = DEFINED.finditer(path.read_text())
    own = {match[2]: len(re.findall(rf"\b{match[2]}\b", match[0])) for match in found if not match[1]}
    return [name for name, count in own.items() if all_words()[name] == count]


def test_nothing_lies_here_that_nobody_names():
    assert {name: path for path in SOURCE.rglob("*.py") for name in unnamed(path)}.keys() == PUBLIC.keys()


@pytest.mark.parametrize(
    "code",
    [
        "import legroom, legroom.api",
        "import legroom.testing, legroom.reports.page",
        "from legroom.cli.app import app; from typer.testing import CliRunner; CliRunner().invoke(app, ['--help'])",
        "import legroom.api as a; a.jobs(); from legroom.questions.plan.ask import foresee; foresee('digits')",
    ],
)
def test_the_parent_starts_without_torch(code):
    check = f"import sys; {code}; sys.exit(1 if 'torch' in sys.modules else 0)"
    assert subprocess.run([sys.executable, "-c", check], capture_output=True).returncode == 0


def test_asking_imports_neither_torch_nor_the_users_file_into_the_parent(tmp_path):
    (tmp_path / "marked.py").write_text("from tests_marker import nothing\n")
    code = (
        "import sys, pathlib, legroom.api as a\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "try: a.memory(f'{folder}/marked.py:job', device='cpu', run=a.Run(out=folder))\n"
        "except Exception as error: print(type(error).__name__)\n"
        "print('torch' in sys.modules, 'marked' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)
    assert done.stdout.split() == ["JobRaised", "False", "False"], done.stderr


def test_a_run_of_one_process_imports_nothing_for_several():
    waiting, seen = {"legroom.questions.train.child"}, set()
    while waiting:
        seen.add(name := waiting.pop())
        path = SOURCE.joinpath(*name.split(".")[1:]).with_suffix(".py")
        waiting |= (at_load(path) if name.startswith("legroom.") and path.is_file() else set()) - seen
    assert "legroom.training.loop" in seen
    assert not [name for name in seen if name.startswith(("torch.distributed", "torch.nn.parallel"))]


def test_every_question_and_what_a_job_is_made_of_are_public():
    beside = {"Job", "JobAddress", "Run", "Score", "Settings", "__version__", "jobs", "load_job", "report"}
    assert set(legroom.__all__) == beside | set(QUESTIONS)
    assert all(getattr(legroom, name) is getattr(legroom.api, name) for name in QUESTIONS)
    assert all(hasattr(legroom, name) for name in beside)
    assert not set(KERNEL) & set(QUESTIONS), "a module of that name would take the function's place"
