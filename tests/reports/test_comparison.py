"""Several folders on one page: a column for each, their curves together, told apart by their names."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from legroom import api
from legroom.cli.app import app
from legroom.errors import UsageError
from legroom.reports.comparison import gather_comparison
from legroom.reports.figures import Figure
from legroom.reports.saved_answers import save_answer

NASTY = "</script><b>bold</b>"


@pytest.fixture
def folders(tmp_path, speed_answer, memory_answer, loading_answer):
    """Two machines: one twice as fast, the other with an answer more; the first is named with markup."""
    found = [tmp_path / "<b>p100", tmp_path / "k80"]
    for folder in found:
        folder.mkdir()
    points = [{**p, "samples_per_second": 2 * p["samples_per_second"]} for p in speed_answer.points]
    fast = replace(speed_answer, machine=f"{NASTY} P100", points=points, knee_batch_size=512)
    save_answer(found[0], fast)
    save_answer(found[1], speed_answer)
    save_answer(found[1], replace(memory_answer, machine="planted K80"))
    save_answer(found[0], loading_answer)
    save_answer(found[1], loading_answer)
    return found


def part(page, question):
    (found,) = [one for one in page.sections if one.question == question]
    return found.section


def rows(page, name):
    (table,) = [table for one in page.sections for table in one.section.tables if table.name == name]
    return {row[0]: row[1:] for row in table.rows}


def test_each_folder_has_a_column_with_its_own_facts(folders):
    page = gather_comparison(folders)
    found = rows(page, "compared-speed")
    assert [value.split(" ")[0] for value in found["knee"]] == ["512", "64"]
    assert "512" in found["answer"][0]
    assert rows(page, "compared-memory")["answer"][0] == "not asked"
    assert rows(page, "compared-folders")["machine"][0].startswith(NASTY)


def test_plans_are_compared_by_their_settings_and_their_time_to_the_target(folders, plan_answer):
    plan = replace(plan_answer, baseline={**plan_answer.baseline, "batch_size": 32}, target="score=0.97")
    plan = replace(plan, settings={**plan.settings, "batch_size": 256, "num_workers": 0}, baseline_seconds=95.0)
    for folder, seconds in zip(folders, (12.0, 30.0), strict=True):
        span = {"predicted_seconds": seconds, "predicted_range": (seconds / 1.5, seconds * 1.5)}
        save_answer(folder, replace(plan, baseline_from="measured", **span))
    found = rows(gather_comparison(folders), "compared-plan")
    assert found["time to target"] == [
        "1 min 35 s \u2192 12.0 s (8.0 s to 18.0 s)", "1 min 35 s \u2192 30.0 s (20.0 s to 45.0 s)"
    ]  # fmt: skip
    assert found["batch"] == ["32 \u2192 256"] * 2


def test_what_plans_leave_open_is_told_in_whole_sentences(folders, plan_answer):
    for folder, missing in zip(folders, (["Rates were not sought", "Links neither"], []), strict=True):
        save_answer(folder, replace(plan_answer, missing=missing))
    assert rows(gather_comparison(folders), "compared-plan")["open"] == ["Rates were not sought. Links neither", ""]


def test_a_mark_that_folders_share_is_told_once(folders, speed_answer):
    save_answer(folders[0], replace(speed_answer, machine="P100", knee_batch_size=64))
    figures = {one.name: one for one in part(gather_comparison(folders), "speed").figures}
    assert [mark.label for mark in figures["speed-rate"].marks] == ["<b>p100, k80: knee 64"]


def test_settings_are_told_where_the_folders_differ_and_only_there(folders, speed_answer):
    save_answer(folders[0], replace(speed_answer, settings={"batch_size": 512, "num_workers": 2}, machine="P100"))
    found = rows(gather_comparison(folders), "compared-speed-settings")
    assert found == {"batch_size": ["512", "32"]}


def test_curves_of_all_folders_lie_in_one_figure_in_the_folders_colours(folders):
    figures = {one.name: one for one in part(gather_comparison(folders), "speed").figures}
    rates = figures["speed-rate"]
    assert isinstance(rates, Figure)
    measured = {one.group: one for one in rates.series if one.name.endswith(": measured")}
    assert list(measured) == ["<b>p100", "k80"]
    fast, slow = (one.y for one in measured.values())
    assert fast == [2 * value for value in slow]
    assert {mark.label for mark in rates.marks} == {"<b>p100: knee 512", "k80: knee 64"}


def test_parts_that_would_hide_each_other_stand_side_by_side(folders):
    names = [figure.name for figure in part(gather_comparison(folders), "speed").figures]
    assert {"speed-phases-0", "speed-phases-1"} <= set(names)
    assert len(names) == len(set(names))


def test_folders_of_one_name_are_told_apart_by_their_paths(tmp_path, speed_answer):
    found = [tmp_path / "a" / "run", tmp_path / "b" / "run"]
    for folder in found:
        folder.mkdir(parents=True)
        save_answer(folder, speed_answer)
    (table,) = part(gather_comparison(found), "speed").tables[:1]
    assert [column.label for column in table.columns] == ["", *map(str, found)]


def test_other_jobs_are_told(folders, speed_answer):
    save_answer(folders[1], replace(speed_answer, job="another"))
    assert any("different jobs" in note for note in gather_comparison(folders).notes)


def test_a_folder_named_twice_is_refused(folders):
    with pytest.raises(UsageError, match="named twice"):
        api.report(folders[0], folders[0])


def test_a_folder_without_answers_is_refused_and_nothing_is_written(folders, tmp_path):
    (tmp_path / "empty").mkdir()
    ran = CliRunner().invoke(app, ["report", str(folders[0]), str(tmp_path / "empty")])
    assert ran.exit_code == 2
    assert "There is no answer in" in ran.output
    assert not (folders[0] / "comparison.html").exists()


def test_report_of_several_writes_one_page_and_leaves_the_others_alone(folders):
    before = [sorted(path.rglob("*")) for path in folders]
    ran = CliRunner().invoke(app, ["report", *map(str, folders), "--json"])
    shown = json.loads(ran.stdout)
    assert shown["report"] == str(folders[0] / "comparison.html")
    assert [one["question"] for one in shown["sections"]] == ["folders", "memory", "speed", "loading"]
    assert sorted(folders[1].rglob("*")) == before[1]
    assert not (folders[0] / "report.html").exists()


def test_the_comparison_draws_in_a_browser_and_names_stay_text(open_page, folders):
    _, path = api.report(*folders)
    page, said = open_page(path, width=400)
    drawn = json.loads(page.locator("#figures").text_content())
    assert len(drawn) >= 6
    for figure in drawn:
        assert page.locator(f"#figure-{figure['name']} :is(.trace path, .hm image)").count() > 0, figure["name"]
    assert page.locator("b").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    assert page.locator(".plot tspan[style*=bold]").count() == 0
    assert said == []
