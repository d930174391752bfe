"""A job's digest follows its own file and the user's files that it imports, and runs none of them."""

import hashlib
import shutil
import sys

import pytest

from legroom import api
from legroom.job_address import JobAddress, address_of
from legroom.testing import FakeMachine

JOB = "import os, torch, helper\nfrom package import part\n\ndef job():\n    from nested.deep import thing\n"
FILES = {
    "my_job.py": JOB,
    "helper.py": "raise RuntimeError('only a child may run this')\nimport second\n",
    "second.py": "",
    "package/__init__.py": "from .inner import *\n",
    "package/part.py": "from ..package import sibling\n",
    "package/inner.py": "",
    "package/sibling.py": "",
    "nested/deep.py": "thing = 1\n",
    "bystander.py": "",
}


@pytest.fixture
def folder(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "project"


def digest(folder):
    return address_of(f"{folder / 'my_job.py'}:job").digest


@pytest.mark.parametrize("name", [name for name in FILES if name != "bystander.py"])
def test_an_edit_of_any_imported_file_changes_the_digest(folder, name):
    before = digest(folder)
    assert digest(folder) == before
    (folder / name).write_text(f"{FILES[name]}\n# edited\n")
    assert digest(folder) != before


def test_files_that_are_not_imported_and_the_place_of_the_folder_do_not_matter(folder, tmp_path):
    before = digest(folder)
    (folder / "bystander.py").write_text("# edited\n")
    shutil.copytree(folder, tmp_path / "elsewhere")
    assert digest(folder) == digest(tmp_path / "elsewhere") == before


def test_a_job_of_one_file_has_the_digest_of_that_file(tmp_path):
    (tmp_path / "alone.py").write_text("import torch\n")
    assert address_of(str(tmp_path / "alone.py")).digest == hashlib.sha256(b"import torch\n").hexdigest()[:16]


def test_a_helper_that_is_no_python_is_compared_all_the_same(folder):
    (folder / "helper.py").write_text("this is not Python")
    before = digest(folder)
    (folder / "helper.py").write_text("nor is this")
    assert digest(folder) != before


@pytest.mark.parametrize("name", ["package/__init__.py", "package/sibling.py", "helper.py"])
def test_a_job_named_by_module_follows_its_imports_too(folder, name):
    (folder / "package" / "jobs.py").write_text("from . import sibling\nimport helper\n")
    address = JobAddress(text="package.jobs:job", folder=str(folder))
    before = address.digest
    (folder / name).write_text("# edited\n")
    assert address.digest != before


def test_an_installed_job_follows_its_own_package_alone(tmp_path):
    installed = tmp_path / "site-packages"
    (installed / "theirs").mkdir(parents=True)
    (installed / "theirs" / "__init__.py").write_text("")
    (installed / "theirs" / "jobs.py").write_text("import big_library\nfrom theirs import tools\n")
    (installed / "theirs" / "tools.py").write_text("")
    (installed / "big_library.py").write_text("")
    address = JobAddress(text="theirs.jobs:job", folder=str(installed))
    before = address.digest
    (installed / "big_library.py").write_text("# updated\n")
    assert address.digest == before
    (installed / "theirs" / "tools.py").write_text("# edited\n")
    assert address.digest != before


def test_a_function_that_travels_by_value_follows_the_modules_it_names(tmp_path, monkeypatch):
    (tmp_path / "named_by_value.py").write_text("width = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    import named_by_value

    def job():
        return named_by_value.width

    address = address_of(job)
    before = address.digest
    (tmp_path / "named_by_value.py").write_text("width = 4\n")
    assert address.digest != before
    sys.modules.pop("named_by_value")


def test_resume_after_an_edit_of_an_imported_file_measures_anew_and_refuses_the_checkpoint(
    folder, tmp_path, legroom_here, forking
):
    text = "import torch, helper\nfrom legroom.workloads.digits import job\n"
    (folder / "my_job.py").write_text(text)
    (folder / "helper.py").write_text("")
    job = f"{folder / 'my_job.py'}:job"

    def ask(resume):
        machine = FakeMachine()
        answer = api.memory(job, device="cpu", run=api.Run(out=tmp_path / "o", resume=resume, engine=machine))
        return answer.notes

    ask(resume=False)
    assert not any("changed were not used again" in note for note in ask(resume=True))
    train = ["train", job, "--device", "cpu", "--steps", "2", "--out", tmp_path / "t", "--quiet"]
    assert legroom_here(*train).code == 0
    (folder / "helper.py").write_text("# edited\n")
    assert any("or one that it imports, changed were not used again" in note for note in ask(resume=True))
    again = legroom_here(*train, "--resume")
    assert again.code == 2
    assert "is of another run (its job's file" in again.stderr
