"""The logbook: nothing finished is lost, nothing half-written is read, nobody else's records are taken."""

import dataclasses
import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from legroom import api
from legroom.errors import CannotWrite, UsageError
from legroom.job_address import JobAddress
from legroom.logbook import FILE_NAME, RunStarted, open_logbook, read_records
from legroom.questions.memory.records import TRACE_RULES, PhasePeaks, StepPeaks
from legroom.requests import Describe
from legroom.session import advise_again
from legroom.testing import FakeMachine, plant_host

HEAD = RunStarted(
    run="", job="digits", options={}, digest="d", machine="m", command="memory", legroom_version="0", started_at="now"
)
REQUEST = StepPeaks(device="cpu", batch_size=8)
RESULT = PhasePeaks(phase_bytes={"forward": 5}, num_repeats=3)


def write_one(folder, head=HEAD):
    logbook = open_logbook(folder, head, resume=False)
    logbook.record(REQUEST, RESULT, 1.5)
    logbook.close()


def recall(folder, head=HEAD, request=REQUEST, *, resume=True):
    logbook = open_logbook(folder, head, resume=resume)
    logbook.close()
    return logbook.recall(request), logbook.records.notes


def test_a_resumed_run_recalls_exactly_what_was_asked(tmp_path):
    write_one(tmp_path)
    assert recall(tmp_path)[0] == RESULT
    assert recall(tmp_path, request=dataclasses.replace(REQUEST, batch_size=9))[0] is None


def test_a_new_run_measures_anew_but_keeps_the_old_records(tmp_path):
    write_one(tmp_path)
    assert recall(tmp_path, resume=False)[0] is None
    assert [entry.result for entry in read_records(tmp_path, "memory").entries] == [RESULT]


def test_records_made_with_other_variables_of_the_environment_are_not_used(tmp_path):
    one, more = (dataclasses.replace(HEAD, variables={"OMP_NUM_THREADS": number}) for number in "12")
    write_one(tmp_path, one)
    assert recall(tmp_path, one) == (RESULT, [])
    assert recall(tmp_path, HEAD)[0] == RESULT, "nobody knows which there were"
    found, (note,) = recall(tmp_path, more)
    assert found is None
    assert "other variables of the environment" in note
    assert recall(tmp_path, dataclasses.replace(HEAD, variables={}))[0] is None
    assert read_records(tmp_path, "memory").head.variables == {"OMP_NUM_THREADS": "1"}


def test_a_run_that_noted_its_question_is_one_run(tmp_path):
    logbook = open_logbook(tmp_path, HEAD, resume=False)
    logbook.record(REQUEST, RESULT, 1.5)
    logbook.ask(REQUEST)
    logbook.close()
    assert recall(tmp_path) == (RESULT, [])
    assert read_records(tmp_path, "memory").head.question["batch_size"] == 8


def test_a_run_that_ended_before_it_knew_what_was_asked_is_told_so(tmp_path):
    write_one(tmp_path, dataclasses.replace(HEAD, command="sweep"))
    with pytest.raises(UsageError, match="legroom sweep ended before it knew what was asked"):
        advise_again(tmp_path, "sweep")


def test_questions_asked_together_use_each_others_records_and_nobody_elses(tmp_path):
    write_one(tmp_path)
    together = dataclasses.replace(HEAD, together="a")
    assert recall(tmp_path, together, resume=False)[0] is None
    write_one(tmp_path, together)
    assert recall(tmp_path, together, resume=False)[0] == RESULT
    assert recall(tmp_path, dataclasses.replace(HEAD, together="b"), resume=False) == (None, [])


def test_a_logbook_that_may_not_be_read_is_told_so(tmp_path, monkeypatch):
    def refuse(path):
        raise PermissionError(errno.EACCES, "Permission denied")

    write_one(tmp_path)
    monkeypatch.setattr(Path, "read_bytes", refuse)
    for read in (lambda: recall(tmp_path), lambda: read_records(tmp_path, "memory")):
        with pytest.raises(UsageError, match=r"Cannot read .*logbook.jsonl: Permission denied. Make it readable"):
            read()


@pytest.mark.parametrize("num_cut", range(1, 60, 7))
def test_a_torn_tail_is_cut_and_the_next_record_is_whole(tmp_path, num_cut):
    write_one(tmp_path)
    path = tmp_path / FILE_NAME
    whole = path.read_bytes()
    path.write_bytes(whole + whole.splitlines(keepends=True)[-1][:-num_cut])
    write_one(tmp_path)
    assert [json.loads(line) for line in path.read_bytes().splitlines()]
    assert len(read_records(tmp_path, "memory").entries) == 2


def test_a_line_that_is_no_record_is_passed_over_and_said(tmp_path):
    write_one(tmp_path)
    with (tmp_path / FILE_NAME).open("a") as file:
        file.write('{"entry": {"run": "x"}}\n')
    found, notes = recall(tmp_path)
    assert found == RESULT
    assert "1 lines" in notes[0]


def test_a_run_that_measured_nothing_claims_no_folder(tmp_path):
    open_logbook(tmp_path, HEAD, resume=False).close()
    write_one(tmp_path, dataclasses.replace(HEAD, job="other"))
    assert read_records(tmp_path, "memory").head.job == "other"


def test_another_jobs_folder_is_refused(tmp_path):
    write_one(tmp_path)
    with pytest.raises(UsageError, match=r"is the logbook of digits\. Name another folder"):
        open_logbook(tmp_path, dataclasses.replace(HEAD, job="other"), resume=True)
    with pytest.raises(UsageError, match="logbook of digits"):
        open_logbook(tmp_path, dataclasses.replace(HEAD, options={"hidden": "9"}), resume=True)


@pytest.mark.parametrize(
    ("change", "words"), [({"digest": "e"}, "or one that it imports, changed"), ({"machine": "n"}, "another machine")]
)
def test_records_of_an_edited_job_or_another_machine_are_not_used(tmp_path, change, words):
    write_one(tmp_path)
    found, notes = recall(tmp_path, dataclasses.replace(HEAD, **change))
    assert found is None
    assert words in notes[0]


@pytest.mark.parametrize(
    "change", [{}, {"rules": TRACE_RULES + 1}], ids=["as before rules had a number", "by later rules"]
)
def test_an_estimate_by_other_rules_is_asked_for_anew(tmp_path, change):
    machine = FakeMachine(bytes_per_sample=3e6)
    first = estimate(tmp_path, machine)
    path = tmp_path / FILE_NAME
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        made = line.get("entry", {}).get("result", {}).get("estimate", {})
        if made:
            made |= {"reserve": made.pop("reserves")}
            made.pop("rules")
            made |= change
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    again = estimate(tmp_path, machine)
    assert again.max_batch_size == first.max_batch_size
    assert again.seconds > 0
    assert "rules of another version" in again.notes[0]
    third = estimate(tmp_path, machine)
    assert third.seconds == 0, "what was asked anew is known from then on"


def estimate(folder, machine):
    """The largest batch on a card that is not here."""
    run = api.Run(out=folder, engine=machine, resume=True, host=plant_host())
    return api.memory(JobAddress(text="planted"), card="a100-40gb", run=run)


def test_two_writers_are_one_too_many(tmp_path):
    logbook = open_logbook(tmp_path, HEAD, resume=False)
    code = (
        "import sys, pathlib; from legroom.logbook import RunStarted, open_logbook\n"
        "from legroom.errors import UsageError\n"
        "head = RunStarted(run='', job='digits', options={}, digest='d', machine='m', command='', legroom_version='',"
        " started_at='')\n"
        "try: open_logbook(pathlib.Path(sys.argv[1]), head, resume=False)\n"
        "except UsageError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)
    assert "Another legroom is writing" in done.stdout, done.stderr
    logbook.close()


def test_a_folder_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(UsageError, match="Cannot write to"):
        open_logbook(tmp_path / "taken", HEAD, resume=False)


def test_requests_of_other_kinds_are_not_mixed_up(tmp_path):
    write_one(tmp_path)
    assert recall(tmp_path, request=Describe())[0] is None


def test_an_entry_is_on_disk_before_record_returns(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(descriptor))
    write_one(tmp_path)
    assert len(synced) == 2  # the head and the entry


@pytest.mark.parametrize("deep", ["o", "a/b/c"])
def test_a_run_that_measured_nothing_leaves_no_folder_behind(tmp_path, deep):
    open_logbook(tmp_path / deep, HEAD, resume=False, hides=True).close()
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "mine").mkdir()
    open_logbook(tmp_path / "mine", HEAD, resume=False).close()
    assert (tmp_path / "mine").is_dir(), "a folder that was there before stays"


def test_a_failing_write_lets_go_of_the_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "legroom-out" / ".gitignore").mkdir(parents=True)  # a file cannot take its place
    run = api.Run(engine=FakeMachine())
    for _ in range(2):
        with pytest.raises(CannotWrite, match=r"Cannot write legroom-out/\.gitignore"):
            api.memory(JobAddress(text="planted"), device="cpu", run=run)


def test_a_report_waits_for_nobody_who_writes(tmp_path):
    run = api.Run(out=tmp_path, engine=FakeMachine())
    api.memory(JobAddress(text="planted"), device="cpu", run=run)
    api.report(tmp_path)
    logbook = open_logbook(tmp_path, read_records(tmp_path, "memory").head, resume=False)
    with pytest.raises(UsageError, match="Another legroom is writing"):
        api.report(tmp_path)
    logbook.close()


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_files_have_the_modes_that_the_umask_gives(tmp_path, mask):
    before = os.umask(mask)
    try:
        api.plan(JobAddress(text="planted"), device="cpu", run=api.Run(out=tmp_path / "o", engine=FakeMachine()))
    finally:
        os.umask(before)
    paths = [path for path in (tmp_path / "o").rglob("*") if path.is_file()]
    assert {path.name for path in paths} >= {"plan.toml", "report.html", "plan.json", "logbook.jsonl"}
    assert {path.stat().st_mode & 0o777 for path in paths} == {0o666 & ~mask}
