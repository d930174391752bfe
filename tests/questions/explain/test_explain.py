"""Every number of a plan is told with its reason and its evidence, from files alone."""

import io
import subprocess
import sys
from dataclasses import replace

import pytest
from rich.console import Console
from typer.testing import CliRunner

from legroom import api
from legroom.cli.app import app
from legroom.errors import NothingMeasured, UsageError
from legroom.laws.time_to_target import steps_to_target
from legroom.offers import offers_table
from legroom.plan_file import read_plan, write_plan
from legroom.questions.explain.view import print_explain
from legroom.questions.explain.what_if import batch_table
from legroom.reports.saved_answers import save_answer
from legroom.testing import FakeMachine, plant_host

PLAN = """job = "digits"
target = "score=0.97"
predicted_seconds = 12.0
predicted_range = [9.0, 16.0]
[batch_size]
value = 256
range = [128, 512]
because = "the fastest to the target"
evidence = ["step_times"]
[clip_norm]
because = "the job's own"
"""


@pytest.fixture
def plan(tmp_path):
    run = api.Run(out=tmp_path, engine=FakeMachine(), host=plant_host())
    api.speed("digits", device="cpu", batch_sizes=[64, 256], run=run)
    (tmp_path / "plan.toml").write_text(PLAN)
    return tmp_path / "plan.toml"


def test_a_setting_is_told_with_the_records_and_the_answer_it_rests_on(plan):
    (item,) = api.explain(plan, "batch_size").explained
    assert (item["value"], item["range"], item["because"]) == (256, (128, 512), "the fastest to the target")
    (evidence,) = item["evidence"]
    assert (evidence["kind"], evidence["num_records"] > 0) == ("step_times", True)
    (finding,) = item["findings"]
    assert finding["question"] == "speed"
    assert finding["summary"] == api.report(plan.parent)[0].sections[0].section.summary


def test_evidence_may_be_named_by_what_was_asked_as_well_as_by_what_was_seen(plan):
    plan.write_text(PLAN.replace('["step_times"]', '["time_steps"]'))
    (item,) = api.explain(plan, "batch_size").explained
    assert item["evidence"][0]["num_records"] > 0
    assert [finding["question"] for finding in item["findings"]] == ["speed"]


def test_without_a_name_all_that_rests_on_evidence_is_told(plan):
    assert [item["name"] for item in api.explain(plan).explained] == ["batch_size"]
    assert api.explain(plan, "clip_norm").explained[0]["because"] == "the job's own"


def test_a_plan_alone_tells_what_its_file_says(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    answer = api.explain(path)
    assert answer.explained[0]["findings"] == []
    assert any("There is no logbook" in note for note in answer.notes)


def test_a_setting_that_the_plan_does_not_have_is_refused_with_its_like(plan):
    with pytest.raises(UsageError, match=r"says nothing of 'batchsize'\. Did you mean batch_size\?"):
        api.explain(plan, "batchsize")


def test_the_command_prints_reason_and_numbers_and_needs_no_torch(plan):
    ran = CliRunner().invoke(app, ["explain", str(plan), "batch_size"])
    assert ran.exit_code == 0
    assert all(words in ran.stdout for words in ("batch_size = 256", "the fastest to the target", "step_times"))
    code = f"import sys; import legroom.api as a; a.explain({str(plan)!r}); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


FACTORS = {
    "least_steps": 100.0, "critical_batch_size": 64.0, "sizes": [64, 256], "seconds": [0.01, 0.02], "update": 0.0,
    "evaluation": 0.0, "num_evaluations": 1.0, "fixed_bytes": 1.0, "bytes_per_sample": 1.0, "device_bytes": 301.0,
}  # fmt: skip


def test_other_batch_sizes_are_told_by_the_laws_of_the_plan_as_far_as_memory_allows():
    rows = batch_table(FACTORS, 256)
    assert [row["batch_size"] for row in rows] == [64, 128, 256], "512 and 1,024 do not fit"
    assert [row["chosen"] for row in rows] == [False, False, True]
    assert rows[0]["seconds"] == pytest.approx(steps_to_target(64, 100.0, 64.0) * 0.01)
    assert batch_table({}, 256) == []


def test_where_the_own_settings_stay_no_batch_is_called_chosen_and_the_rate_is_said_to_be_another(plan):
    assert not any(row["chosen"] for row in batch_table(FACTORS, 256, kept=True))
    answer = replace(api.explain(plan, "batch_size"), batches=batch_table(FACTORS, 256, kept=True))
    assert answer.kept, "the plan names no length of a run"
    said = io.StringIO()
    print_explain(Console(file=said, width=200), answer)
    assert "at the rate that was found, which is not recommended" in said.getvalue()
    assert "chosen" not in said.getvalue()


def planned(folder):
    """A plan as legroom writes it, its answer beside it, made of a run whose critical batch size nobody knows."""
    run = api.Run(out=folder, engine=FakeMachine(), host=plant_host())
    answer = api.plan("digits", device="cpu", run=run)
    unknown = {"critical_batch_size": None, "batch_size": 128, "num_passes": 1, "num_devices": 1, "num_workers": 0}
    pace = dict.fromkeys(("inline_seconds", "worker_seconds", "contention", "coherence", "core_seconds"), 0.0)
    spread = {"steps_spread": 1.2, "seconds_spread": 1.1}
    answer = replace(answer, factors={**FACTORS, **unknown, **pace, **spread})
    save_answer(folder, answer)
    path = folder / "plan.toml"
    plan = replace(read_plan(path), target="score=0.9777777777777777", predicted_seconds=12.0, notes=["Stop those"])
    write_plan(plan, path)
    return path, answer


def said_of(answer):
    said = io.StringIO()
    print_explain(Console(file=said, width=200), answer)
    return said.getvalue()


def test_where_the_critical_batch_is_unknown_both_ends_are_told():
    rows = batch_table({**FACTORS, "critical_batch_size": None, "batch_size": 128}, 128)
    assert {row["batch_size"]: row["num_steps_range"] for row in rows} == {
        32: (100.0, 400.0), 64: (100.0, 200.0), 128: (100.0, 100.0), 256: (50.0, 100.0)
    }  # fmt: skip
    assert rows[0]["seconds_range"] == pytest.approx((100 * 0.01, 400 * 0.01))
    assert rows[0]["seconds"] == rows[0]["seconds_range"][1]


def test_the_batch_rests_on_what_tells_of_others_too_and_all_is_told_as_of_when_it_was_made(tmp_path):
    path, _ = planned(tmp_path)
    told = api.explain(path)
    (item,) = api.explain(path, "batch_size").explained
    assert {"step_times", "grown"} <= {weight["kind"] for weight in item["evidence"]}
    assert "When the plan was made: Stop those" in told.notes
    said = said_of(told)
    assert "score 0.9778 is foretold in 12.0 s" in said
    assert "The critical batch size was not measured" in said
    assert not any(item["edited"] for item in told.explained)


def test_a_value_that_was_changed_by_hand_is_marked_and_nothing_is_foretold(tmp_path):
    path, answer = planned(tmp_path)
    value = f"value = {answer.batch_size}"
    assert value in path.read_text()
    path.write_text(path.read_text().replace(value, "value = 100000", 1))
    told = api.explain(path)
    assert {item["name"] for item in told.explained if item["edited"]} == {"batch_size"}
    said = said_of(told)
    assert "nothing is foretold" in said
    assert "changed by hand; reason, range and records are of what the plan had found" in said
    (tmp_path / "answers" / "plan.json").unlink()
    assert api.explain(path, "batch_size").explained[0]["edited"], "it lies outside its range"


def on_h200(folder, more="[num_steps]\nvalue = 1000\n"):
    path = folder / "plan.toml"
    path.write_text(PLAN.replace("target", 'machine = "Linux x86_64, 16 cores, NVIDIA H200"\ntarget', 1) + more)
    return read_plan(path)


BUSY = {**FACTORS, "busy": 1.0}
"""Of a device that never waits for its host."""
NUM_STEPS = 125
"""Of 256 samples, by these factors."""


def test_offers_are_ranked_by_time_and_money_from_what_was_measured_here(tmp_path):
    rows = offers_table("l4=0.7/h,h100=2.9/h,h200=4/h", on_h200(tmp_path), BUSY, [])
    h200, h100, l4 = rows
    assert [row["name"] for row in rows] == ["h200-141gb", "h100-80gb", "l4-24gb"]
    assert h200["seconds"]["value"] == pytest.approx(NUM_STEPS * 0.02), "the same card takes what was measured"
    assert h100["seconds"]["value"] == pytest.approx(NUM_STEPS * 0.02 * (4800 / 3350) ** 0.5)
    assert l4["seconds"]["low"] < l4["seconds"]["value"] < l4["seconds"]["high"]
    assert h200["step_seconds"]["value"] == pytest.approx(0.02)
    assert sorted(row["place_by_money"] for row in rows) == [1, 2, 3]
    assert min(rows, key=lambda row: row["money"]["value"])["place_by_money"] == 1


def test_operations_that_were_counted_bound_what_a_card_with_faster_memory_can_gain(tmp_path):
    machine = replace(on_h200(tmp_path), machine="Linux x86_64, 16 cores, NVIDIA L4")
    flops = {share: share * 121e12 * 0.02 / 256 for share in (0.0, 0.4, 2.0)}  # by the peak of 16 bits
    found = {share: {**BUSY, "flops_per_sample": each} for share, each in flops.items()}
    by = {share: offers_table("h200=4/h", machine, factors, [])[0]["seconds"] for share, factors in found.items()}
    assert by[0.0]["low"] == pytest.approx(NUM_STEPS * 0.02 * (300 / 4800) / 1.5)
    assert by[0.4]["low"] == pytest.approx(NUM_STEPS * 0.02 * (0.4 * 30.3 / 67) / 1.5)
    assert by[2.0]["value"] == pytest.approx(NUM_STEPS * 0.02 * 30.3 / 67), "no more than its peak"


@pytest.mark.parametrize("card", ["l4", "h200"])
def test_what_the_host_does_takes_as_long_on_any_card(tmp_path, card):
    host = {"busy": 0.0, "update": 0.003, "inline_seconds": 0.0001, "evaluation": 0.5, "num_evaluations": 4.0}
    (row,) = offers_table(f"{card}=1/h", on_h200(tmp_path), {**FACTORS, **host}, [])
    assert row["seconds"]["value"] == pytest.approx(NUM_STEPS * (0.02 + 0.003 + 256 * 0.0001) + 4 * 0.5)


def test_without_a_clock_of_the_device_what_does_not_grow_with_the_batch_counts_as_the_hosts(tmp_path):
    (row,) = offers_table("l4=1/h", on_h200(tmp_path), FACTORS, [])
    factor = ((67 / 30.3) * (4800 / 300)) ** 0.5
    floor = 0.02 / 3
    assert row["seconds"]["value"] == pytest.approx(NUM_STEPS * (floor + (0.02 - floor) * factor))


def test_a_run_of_the_own_settings_that_stay_is_forecast_as_it_was_seen(tmp_path):
    own = {"num_passes": 2, "num_steps": 500.0, "step_seconds": 0.1, "evaluation": 0.5, "num_evaluations": 4.0}
    factors = {**BUSY, "update": 0.002, "inline_seconds": 0.0001, "own": own}
    seconds = {
        card: offers_table(f"{card}=1/h", on_h200(tmp_path, ""), factors, [])[0]["seconds"]["value"]
        for card in ("h200", "h100")
    }
    assert seconds["h200"] == pytest.approx(500 * 0.1 + 4 * 0.5)
    host, factor = 0.002 + 2 * 256 * 0.0001, (4800 / 3350) ** 0.5
    assert seconds["h100"] == pytest.approx(500 * (host + (0.1 - host) * factor) + 4 * 0.5 * factor)


def test_a_forecast_without_a_planned_run_or_a_known_device_is_refused(tmp_path):
    with pytest.raises(NothingMeasured, match="and the answer of legroom plan beside the plan"):
        offers_table("l4=0.7/h", on_h200(tmp_path), {}, [])
    with pytest.raises(NothingMeasured, match="and the answer of legroom plan beside the plan"):
        offers_table("l4=0.7/h", on_h200(tmp_path, ""), FACTORS, [])
    unknown = on_h200(tmp_path)
    with pytest.raises(NothingMeasured, match="how fast a toaster is at best"):
        offers_table("l4=0.7/h", replace(unknown, machine="a toaster"), FACTORS, [])
