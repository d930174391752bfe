"""Wrong input: each a sentence that says what to do, its exit code, and no traceback."""

import os
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from legroom.cli.app import app
from legroom.cli.common import speaking

JOBS = Path(__file__).parents[1] / "jobs"
BAD = JOBS / "bad"
PLAIN = f"{JOBS / 'plain.py'}:job"
pytestmark = pytest.mark.usefixtures("forking")

WHICH_JOB = [
    (["no_such_file.py:job"], "There is no file 'no_such_file.py'"),
    ([f"{JOBS / 'plain.py'}:jobb"], "has no function 'jobb'. It has:"),
    (["nonsense"], "built-in jobs: digits"),
    (["no_such_package.module:job"], "There is no module 'no_such_package.module'"),
    ([PLAIN, "--with", "widht=3"], "has no option 'widht'. Its options:"),
    (
        [f"{BAD / 'needs_options.py'}:job", "--with", "depth=2"],
        "job needs 'width' and has no default for it. Add --with",
    ),
    (["digits", "--with", "hidden=many"], "Option hidden=many must be a whole number"),
    (["digits", "--with", "hidden"], "Write --with name=value"),
]
"""What every command reads alike."""
USAGE = [
    ([PLAIN, "--memory", "16 gigs"], "'16 gigs' is no size"),
    ([PLAIN, "--memory", "-3GiB"], "is no size"),
    ([PLAIN, "--device", "tpu"], "There is no device 'tpu'. Known: auto, cpu, cuda"),
    ([PLAIN, "--precision", "fp12"], "There is no precision 'fp12'. Known: fp32"),
    ([PLAIN, "--effective-batch", "0"], "it must be at least 1"),
    ([PLAIN, "--colour"], "--colour"),
    ([PLAIN, "--memory", "0"], "--memory names 0; it must be at least 1"),
    ([PLAIN, "--memory", "1GiB,16 gigs"], "'16 gigs' is no size"),
    ([PLAIN, "--memory", "1GiB,,2GiB"], "has an empty place between its commas"),
    ([PLAIN, "--memory", "1GiB,0"], "--memory names 0; it must be at least 1"),
    ([PLAIN, "--memory", "1GiB,1024MiB"], "names a value twice"),
    ([PLAIN, "--memory", "1GiB,900TiB"], "is more than this host has"),
    ([PLAIN, "--memory", "900TiB"], "is more than this host has"),
    ([PLAIN, "--devices", "2"], "--devices is about GPUs"),
    ([PLAIN, "--rule", "guess"], "There is no rule 'guess'. Known: legroom, thesis"),
    ([PLAIN, "--rule", "thesis"], "--rule thesis reads what torch reserved on a GPU"),
    ([PLAIN, "--device", "cuda", "--card", "a100"], "Did you mean a100-40gb or a100-80gb? Known: a10-24gb"),
    ([PLAIN, "--device", "cuda", "--card", "t4-16gb", "--memory", "8GiB"], "give one"),
    ([f"{JOBS / 'gan.py'}:job", "--effective-batch", "64"], "leave --effective-batch out"),
]


@pytest.mark.parametrize(("words", "message"), USAGE, ids=[words[-1] for words, _ in USAGE])
def test_wrong_use_exits_2_with_a_way_forward(legroom_here, words, message):
    assert_refused(legroom_here("memory", *words, *([] if "--device" in words else ["--device", "cpu"])), message)


def assert_refused(ran, message):
    assert ran.code == 2, ran.stderr
    assert message in " ".join(ran.stderr.split())
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(("words", "message"), WHICH_JOB, ids=[words[-1] for words, _ in WHICH_JOB])
def test_a_job_that_cannot_be_found_exits_2_with_a_way_forward(legroom_here, words, message):
    assert_refused(legroom_here("loading", *words, "--device", "cpu"), message)


@pytest.mark.parametrize(("words", "message"), [USAGE[0], WHICH_JOB[4]], ids=["before a child", "by a child"])
def test_wrong_use_ends_a_process_with_2_too(legroom, words, message):
    assert_refused(legroom("memory", *words, "--device", "cpu"), message)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["machine", "--device", "gpu"], "There is no device 'gpu'. Known: auto, cpu, cuda"),
        (["jobs", "--data", "absent"], "--data absent is no folder"),
        (["loading", "--data", "absent"], "--data absent is no folder"),
        (["memory", "folder"], "'folder' is a folder, no job. Write file.py:function"),
        (["memory", "notes.txt"], "'notes.txt' is a file, but its name does not end in .py"),
        (["memory", "mine"], "'mine' is no job, but there is a file mine.py"),
    ],
)
def test_words_that_name_nothing_are_refused_by_every_command(tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "notes.txt").touch()
    (tmp_path / "mine.py").touch()
    ran = CliRunner().invoke(app, words)
    assert ran.exit_code == 2, ran.stderr
    assert message in ran.stderr


@pytest.mark.parametrize("words", [["-h"], ["memory", "-h"]])
def test_the_short_word_for_help_is_known(words):
    assert CliRunner().invoke(app, words).exit_code == 0


@pytest.mark.parametrize(("resumes", "words"), [(True, "--resume goes on"), (False, "Stopped.\n")])
def test_only_a_command_that_resumes_says_so_when_stopped(capsys, resumes, words):
    with pytest.raises(typer.Exit) as stopped, speaking(json=False, debug=False, resumes=resumes):
        raise KeyboardInterrupt
    assert stopped.value.exit_code == 130
    assert words in capsys.readouterr().err


FAILING = [
    ("loading", "returns_linear", "returned a Linear; legroom needs a Job"),
    ("loading", "factory_raises", "factory_raises.py, line"),
    ("loading", "import_raises", "raised"),
    ("loading", "empty_data", "empty data set"),
    ("loading", "no_trainable", "no trainable parameters"),
    ("memory", "loss_vector", "take its mean"),
    ("memory", "loss_nan", "finite loss"),
    ("memory", "no_tensors", "without tensors"),
    ("memory", "exits", "exit status 3"),
]


@pytest.mark.parametrize(("command", "name", "message"), FAILING, ids=[name for _, name, _ in FAILING])
def test_a_failing_job_exits_1_and_says_why(legroom_here, command, name, message):
    assert_failed(legroom_here(command, f"{BAD / name}.py:job", "--device", "cpu"), message)


@pytest.mark.parametrize(("command", "name", "message"), [FAILING[0], FAILING[-1]], ids=["raises", "dies"])
def test_a_failing_job_ends_a_process_with_1_too(legroom, command, name, message):
    assert_failed(legroom(command, f"{BAD / name}.py:job", "--device", "cpu"), message)


def assert_failed(ran, message):
    assert (ran.code, ran.stdout) == (1, ""), ran.stderr
    assert message in " ".join(ran.stderr.split())
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    ("words", "where", "message"),
    [
        (["speed", "--batch-sizes", "4,8", "--quick"], "samples", "4 of 200 samples of train_data"),
        (["loading"], "samples", "hold NaN or infinity, the first at index 7"),
        (["speed", "--batch-sizes", "4,8", "--quick"], "collate", "Look at what its collation makes"),
    ],
)
def test_samples_that_are_no_numbers_are_told_with_the_answer(legroom_here, words, where, message):
    job = f"{BAD / 'nan_samples.py'}:job"
    ran = legroom_here(words[0], job, *words[1:], "--with", f"where={where}", "--device", "cpu", "--json", "--quiet")
    assert ran.code == 0, ran.stderr
    assert any(message in note for note in ran.json["notes"])


def test_debug_shows_the_traceback(legroom_here):
    ran = legroom_here("loading", f"{BAD / 'factory_raises.py'}:job", "--device", "cpu", "--debug")
    assert "Traceback" in ran.stderr


def test_a_budget_smaller_than_the_model_exits_3_and_says_what_it_needs(legroom_here):
    ran = legroom_here("memory", PLAIN, "--device", "cpu", "--memory", "50MiB", "--json")
    assert ran.code == 3
    assert "smallest batch needs" in ran.json["error"]
    assert ran.json["error_type"] == "DoesNotFit"


def test_cuda_where_there_is_none_exits_2(legroom_here):
    ran = legroom_here("memory", PLAIN, "--device", "cuda", env={"CUDA_VISIBLE_DEVICES": ""})
    assert ran.code == 2
    assert "there is no GPU here" in ran.stderr


@pytest.mark.skipif(os.geteuid() == 0 and not os.path.exists("/proc/version"), reason="needs a folder nobody can write")
def test_a_folder_that_cannot_be_written_exits_2(legroom_here):
    ran = legroom_here("memory", PLAIN, "--device", "cpu", "--memory", "1GiB", "--out", "/proc/no_such_folder")
    assert ran.code == 2
    assert "Name another folder with --out" in " ".join(ran.stderr.split())


def test_a_folder_with_another_jobs_logbook_exits_2(legroom_here, tmp_path):
    assert legroom_here("memory", f"{BAD / 'loss_nan.py'}:job", "--device", "cpu", "--out", tmp_path / "o").code == 1
    ran = legroom_here("memory", PLAIN, "--device", "cpu", "--out", tmp_path / "o")
    assert ran.code == 2
    assert "is the logbook of" in ran.stderr


@pytest.mark.parametrize("out", [[], ["--out", "a/b/c"]])
@pytest.mark.parametrize("command", ["memory", "train", "plan"])
def test_a_command_that_measured_nothing_leaves_no_folder(legroom_here, one_folder, command, out):
    assert legroom_here(command, f"{BAD / 'import_raises.py'}:job", "--device", "cpu", *out).code == 1
    assert list(one_folder.iterdir()) == []
