"""Several values in one command: asked in turn, compared, and refused before anything is measured."""

import json
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from legroom import api
from legroom.cli.several import ask_each, values_of, whole_number
from legroom.errors import DoesNotFit, OutOfMemory, UsageError
from legroom.job_address import JobAddress
from legroom.reports.numbers import quantity
from legroom.reports.page import gather_page
from legroom.reports.saved_answers import save_answer
from legroom.reports.views import to_json_together
from legroom.testing import FakeMachine
from legroom.units import parse_bytes

NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}


def ask(budgets, out, said=lambda message, share: None, **planted):
    """Answers and what is missing, of a machine where a sample takes 1 MB above 300 MB."""
    run = api.Run(out=out, engine=FakeMachine(**planted), progress=said)
    job = JobAddress(text="planted")
    return ask_each(budgets, run, lambda size, part: api.memory(job, device="cpu", memory=size, run=part))


def lines(folder, kind):
    """The entries of one kind in the folder's logbook."""
    entries = [json.loads(line).get("entry") for line in (folder / "logbook.jsonl").read_text().splitlines()]
    return [entry for entry in entries if entry and entry["request"]["kind"] == kind]


def test_values_are_read_largest_first():
    assert values_of("--batch-size", "8, 256,32", whole_number) == [256, 32, 8]
    assert values_of("--batch-size", None, whole_number) == [None]


@pytest.mark.parametrize("words", ["", ",", "8,", "8,,16", "8,x", "8,0", "8,-1", "8,8", "8,1.5"])
def test_one_wrong_entry_refuses_the_list(words):
    with pytest.raises(UsageError):
        values_of("--batch-size", words, whole_number)


def test_each_value_is_answered_and_shared_probes_are_made_once(tmp_path):
    found, missing = ask([10**9, 700 * 10**6], tmp_path)
    assert missing == []
    assert [answer.max_batch_size for answer in found] == pytest.approx([700, 400], rel=0.05)
    small = [entry["request"]["batch_size"] for entry in lines(tmp_path, "step_peaks")]
    assert small.count(2) == 1, "the second budget measured what the first had"
    assert len(lines(tmp_path, "describe")) == 1


def test_a_value_that_runs_out_of_memory_costs_only_itself(tmp_path):
    def asked(value, run):
        if value > 100:
            raise OutOfMemory(f"A batch of {value} does not fit")
        return value

    assert ask_each([4096, 32], api.Run(out=tmp_path), asked) == ([32], ["A batch of 4096 does not fit"])
    with pytest.raises(OutOfMemory):
        ask_each([4096, 256], api.Run(out=tmp_path), asked)


def test_records_of_an_earlier_command_are_not_used_without_resume(tmp_path):
    ask([10**9, 700 * 10**6], tmp_path)
    ask([10**9, 700 * 10**6], tmp_path)
    assert len(lines(tmp_path, "describe")) == 2


def test_progress_of_all_never_falls_and_ends_at_one(tmp_path):
    shares = []
    ask([10**9, 700 * 10**6], tmp_path, lambda message, share: shares.append(share))
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_a_budget_that_holds_nothing_costs_only_itself(tmp_path):
    found, (why,) = ask([10**9, 10**8], tmp_path)
    assert len(found) == 1
    assert "smallest batch needs" in why
    assert why in to_json_together(found, [why])["not_measured"]
    with pytest.raises(DoesNotFit):
        ask([10**8, 10**7], Path(tempfile.mkdtemp(dir=tmp_path)))


def test_one_object_holds_all_answers_and_the_table_that_compares_them(tmp_path):
    made = to_json_together(*ask([10**9, 700 * 10**6], tmp_path))
    assert {"legroom_version", "job", "machine", "seconds", "notes", "not_measured"} <= set(made)
    assert [one["budget_bytes"] for one in made["answers"]] == [700 * 10**6, 10**9]
    (table,) = made["tables"]
    assert [row[3] for row in table["rows"]] == [one["max_batch_size"] for one in made["answers"]]
    assert made["seconds"] == sum(one["seconds"] for one in made["answers"])


def test_budgets_that_read_alike_are_kept_apart(tmp_path):
    ask([parse_bytes("1.01GiB"), parse_bytes("1GiB")], tmp_path)
    assert len(list((tmp_path / "answers").glob("memory-*.json"))) == 2
    table = next(part.section.tables[0] for part in gather_page(tmp_path).sections if part.question == "memory")
    assert [row[1] for row in table.rows] == [parse_bytes("1GiB"), parse_bytes("1.01GiB")]
    assert [quantity(row[1], table.columns[1].unit) for row in table.rows] == ["1.0 GiB", "1.01 GiB"]


def test_questions_that_differ_in_batch_or_rule_keep_their_own_answers(tmp_path):
    run = api.Run(out=tmp_path, engine=FakeMachine(bytes_per_sample=1e6, fixed_bytes=3e8))
    job = JobAddress(text="planted")
    for wanted in (None, 4096, 8192):
        api.memory(job, device="cpu", memory=10**9, effective_batch=wanted, run=run)
    for share in (0.9, 0.8):
        answer = api.speed(job, device="cpu", share=share, run=run)
    save_answer(tmp_path, replace(answer, rule="utilisation"))
    saved = [path.name for path in (tmp_path / "answers").glob("*.json")]
    assert sorted(name.partition("-")[0] for name in saved) == ["memory"] * 3 + ["speed"] * 3


def test_an_answer_for_what_is_free_replaces_the_one_before(tmp_path):
    for num_bytes in (100e6, 200e6):
        run = api.Run(out=tmp_path, engine=FakeMachine(fixed_bytes=num_bytes))
        api.memory(JobAddress(text="planted"), device="cpu", run=run)
    assert len(list((tmp_path / "answers").glob("memory-*.json"))) == 1


def test_one_trace_serves_all_caps_of_a_gpu_that_is_not_here(legroom_here, tmp_path):
    words = ["--device", "cuda", "--memory", "8GiB,40GiB,16GiB", "--out", tmp_path / "o", "--json"]
    ran = legroom_here("memory", "digits", *words, env=NO_GPU)
    assert ran.code == 0, ran.stderr
    sizes = [one["max_batch_size"] for one in ran.json["answers"]]
    assert sizes == sorted(set(sizes))
    assert len(sizes) == 3
    assert len(lines(tmp_path / "o", "trace_memory")) == 1
    assert "The same job within other budgets" in (tmp_path / "o" / "report.html").read_text()


@pytest.mark.parametrize("words", ["32,99999999", "32,x", "32,,64", "32,32"])
def test_a_wrong_batch_size_is_refused_before_anything_is_measured(legroom_here, tmp_path, words):
    ran = legroom_here("loading", "digits", "--device", "cpu", "--batch-size", words, "--out", tmp_path / "o")
    assert ran.code == 2, ran.stderr
    logbook = tmp_path / "o" / "logbook.jsonl"
    assert not logbook.exists() or not lines(tmp_path / "o", "race_loaders")
