"""The direction of imports, and a start without torch."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import legroom

SOURCE = Path(legroom.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
FORBIDDEN = {
    "laws": {"training", "probes", "engines", "advisors", "reports", "api", "cli", "child", "workloads", "adapters"},
    "advisors": {"training", "probes", "engines", "reports", "api", "cli", "child", "adapters"},
    "reports": {"training", "probes", "engines", "api", "cli", "child", "adapters"},
    "training": {"probes", "engines", "advisors", "reports", "api", "cli", "child", "workloads", "adapters"},
    "probes": {"advisors", "reports", "api", "cli", "child"},
    "engines": {"probes", "advisors", "reports", "api", "cli", "child", "training"},
    "workloads": {"probes", "engines", "advisors", "reports", "api", "cli", "child", "adapters"},
    "adapters": {"probes", "engines", "advisors", "reports", "api", "cli", "child", "workloads"},
}


def imported(path: Path) -> set[str]:
    """Full names of all modules a file imports, at any depth."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


@pytest.mark.parametrize("folder", FORBIDDEN)
def test_imports_run_one_way(folder):
    for path in sorted((SOURCE / folder).rglob("*.py")):
        reached = {name.split(".")[1] for name in imported(path) if name.startswith("legroom.")}
        assert not reached & FORBIDDEN[folder], f"{path} imports {reached & FORBIDDEN[folder]}"


@pytest.mark.parametrize("folder", ["laws", "advisors", "reports"])
def test_advice_and_reports_never_import_torch(folder):
    for path in sorted((SOURCE / folder).rglob("*.py")):
        assert "torch" not in {name.split(".")[0] for name in imported(path)}, path


def test_the_command_line_calls_only_the_api():
    allowed = {"cli", "api", "errors", "units", "texts", "reports"}
    for path in (SOURCE / "cli").glob("*.py"):
        reached = {name.split(".")[1] for name in imported(path) if name.startswith("legroom.")}
        assert reached <= allowed, f"{path} imports {reached - allowed}"


@pytest.mark.parametrize(
    "code",
    [
        "import legroom, legroom.api",
        "import legroom.testing, legroom.reports.page",
        "from legroom.cli import app; from typer.testing import CliRunner; CliRunner().invoke(app, ['--help'])",
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


def test_the_public_names_are_these():
    assert set(legroom.__all__) == {
        "Job",
        "JobAddress",
        "Score",
        "Settings",
        "__version__",
        "jobs",
        "load_job",
        "loading",
        "machine",
        "memory",
        "plan",
        "speed",
        "train",
    }
    assert all(hasattr(legroom, name) for name in legroom.__all__)
