"""Figure data of planted answers holds what was planted."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from legroom import api
from legroom.questions.loading.thesis import ThesisRule
from legroom.questions.loading.view import loading_rows
from legroom.questions.loading.view import section as loading_section
from legroom.questions.memory.view import print_memory
from legroom.questions.memory.view import section as memory_section
from legroom.questions.speed.view import print_speed
from legroom.reports.views import to_json, view_of, views
from legroom.testing import FakeMachine, FakeSteps


def figure(answer, name):
    (found,) = [one for one in to_json(answer)["figures"] if one["name"] == name]
    return found


def series(answer, figure_name, name):
    (found,) = [one for one in figure(answer, figure_name)["series"] if one["name"] == name]
    return dict(zip(found["x"], found["y"], strict=True))


def table(answer, name):
    (found,) = [one for one in to_json(answer)["tables"] if one["name"] == name]
    return found


def test_every_question_has_a_planted_answer_and_plans_open_the_page(planted):
    assert [name for name, view in views().items() if view.section] == list(planted)
    assert all(view_of(answer) is views()[name] for name, answer in planted.items())
    assert next(iter(planted)) == "plan"


def facts(answer):
    return view_of(answer).section(answer, ()).facts


def test_every_section_is_one_sentence_and_figures_of_whole_series(answers):
    names = []
    for answer in answers:
        data = to_json(answer)
        assert data["summary"].endswith(".")
        assert ". " not in data["summary"]
        assert data["figures"] or data["tables"] or facts(answer)
        for drawn in data["figures"]:
            names.append(drawn["name"])
            assert drawn["title"]
            assert drawn["series"] or drawn["heat"]
            assert all(len(one["x"]) == len(one["y"]) >= 1 for one in drawn["series"])
            for key in ("spread", "low", "high"):
                assert all(len(one[key]) in (0, len(one["x"])) for one in drawn["series"])
        for listed in data["tables"]:
            assert all(len(row) == len(listed["columns"]) for row in listed["rows"])
    assert len(names) == len(set(names))


def test_the_memory_figure_holds_the_planted_line_the_budget_and_the_batch(memory_answer):
    peaks = series(memory_answer, "memory-peaks", "backward")
    assert len(peaks) >= 2
    assert all(value == pytest.approx(200e6 + 3e6 * size, rel=1e-6) for size, value in peaks.items())
    (zero, start), (end, stop) = series(memory_answer, "memory-peaks", "law").items()
    assert (stop - start) / (end - zero) == pytest.approx(3e6, rel=1e-3)
    marks = {mark["axis"]: mark["value"] for mark in figure(memory_answer, "memory-peaks")["marks"]}
    assert marks == {"x": memory_answer.max_batch_size, "y": 2_000_000_000}


def test_a_batch_that_ran_out_of_memory_is_drawn_at_the_budget(memory_answer):
    failed = {**memory_answer.probes[0], "batch_size": 9999, "outcome": "out_of_memory"}
    answer = replace(memory_answer, probes=[*memory_answer.probes, failed])
    assert series(answer, "memory-peaks", "did not fit") == {9999: answer.budget_bytes}


def test_a_proof_that_took_too_much_is_marked(memory_answer):
    failed = {
        **memory_answer.probes[-1],
        "batch_size": 777,
        "peak_bytes": 2 * memory_answer.budget_bytes,
        "fits": False,
    }
    answer = replace(memory_answer, probes=[*memory_answer.probes, failed])
    assert series(answer, "memory-peaks", "proof, too large") == {777: 2 * memory_answer.budget_bytes}
    assert 777 not in series(answer, "memory-peaks", "proof")
    console = Console(width=200, record=True, file=io.StringIO())
    print_memory(console, answer)
    (line,) = [line for line in console.export_text().splitlines() if "777" in line]
    assert "proof: too large" in line


def test_other_budgets_stand_in_one_table(memory_answer):
    other = replace(memory_answer, budget_bytes=10**9, max_batch_size=266)
    (drawn,) = memory_section(memory_answer, [other]).tables
    assert [row[3] for row in drawn.rows] == [266, memory_answer.max_batch_size]
    assert drawn.chosen == [1]


def test_speed_figures_hold_rate_utilisation_and_time(speed_answer):
    assert series(speed_answer, "speed-rate", "measured")[512] == pytest.approx(512 / 0.522)
    assert series(speed_answer, "speed-utilisation", "device busy")[64] == pytest.approx(64 / 600)
    assert series(speed_answer, "speed-memory", "peak")[64] == 64_000
    times = list(figure(speed_answer, "speed-epoch")["series"][0]["y"])
    assert times == sorted(times, reverse=True)


def test_the_utilisation_figure_is_left_out_where_nobody_read_it(speed_answer):
    blind = replace(speed_answer, points=[{**point, "utilisation": None} for point in speed_answer.points])
    assert "speed-utilisation" not in [one["name"] for one in to_json(blind)["figures"]]


def test_loading_figures_hold_rate_share_and_law(loading_answer):
    assert series(loading_answer, "loading-rate", "with the step, 2 batches ahead")[2] == 200.0
    assert series(loading_answer, "loading-rate", "law of the loader")[8] == pytest.approx(800.0)
    assert series(loading_answer, "loading-utilisation", "batch 32")[1] == pytest.approx(100 / 350)
    cached, cold = figure(loading_answer, "loading-cache")["series"][0]["y"]
    assert cold / cached == pytest.approx(3.5)  # 1e8 / 1e6 = 100 samples/s against 350


def test_the_knees_share_of_the_best_is_the_one_timed_whatever_the_law_foretells(speed_answer):
    low = [{**point, "samples_per_second": point["samples_per_second"] / 2} for point in speed_answer.predictions]
    timed, foretold = to_json(speed_answer)["summary"], to_json(replace(speed_answer, predictions=low))["summary"]
    assert foretold == timed
    only_foretold = [point for point in speed_answer.points if point["batch_size"] != 64]
    assert "(44% of the best)" in to_json(replace(speed_answer, points=only_foretold, predictions=low))["summary"]


def test_loading_without_workers_is_not_told_as_if_none_were_enough(loading_answer):
    without = replace(loading_answer, num_workers=0, is_fed=True)
    assert to_json(without)["summary"].startswith("Loading without workers is enough: ")


def test_unpinned_memory_is_drawn_where_it_was_chosen_and_only_there(loading_answer):
    plain = {**loading_answer.points[3], "pin_memory": False, "samples_per_second": 345.0}
    answer = replace(loading_answer, points=[plain, *loading_answer.points])
    drawn = series(answer, "loading-rate", "with the step, 2 batches ahead")
    assert drawn[4] == 350.0
    assert series(replace(answer, pin_memory=False), "loading-rate", "with the step, 2 batches ahead")[4] == 345.0


def test_memory_that_holds_more_workers_than_anyone_starts_is_told_as_no_limit(loading_answer):
    few, many = ([{"batch_size": 32, "max_workers": num}, {"batch_size": 64, "max_workers": num}] for num in (16, 256))
    told = {row[0]: row[1:] for row in loading_rows(replace(loading_answer, workers_by_memory=few))}
    assert told["memory allows"] == ("16 workers", "by batch: 16 at 64")
    told = {row[0]: row[1:] for row in loading_rows(replace(loading_answer, workers_by_memory=many))}
    assert told["memory allows"] == ("all worth trying", "256 workers fit, at batches up to 64")


def test_a_law_of_one_count_is_no_line(loading_answer):
    few = replace(loading_answer, points=[point for point in loading_answer.points if point["num_workers"] <= 1])
    names = [one["name"] for one in figure(few, "loading-rate")["series"]]
    assert names == ["with the step, 2 batches ahead"]


def test_loading_times_are_of_an_epoch_where_its_samples_are_known(loading_answer):
    assert series(loading_answer, "loading-epoch", "batch 32")[1] == pytest.approx(1000 / 100)
    known = replace(loading_answer, num_samples=50_000)
    assert figure(known, "loading-epoch")["y"]["label"] == "time of an epoch"
    assert series(known, "loading-epoch", "batch 32")[1] == pytest.approx(50_000 / 100)


def test_loading_by_another_rule_is_drawn_by_its_name(loading_answer):
    found = loading_section(loading_answer, [replace(loading_answer, rule="thesis")])
    (shares,) = [one for one in found.figures if one.name == "loading-utilisation"]
    assert {one.name for one in shares.series} == {"batch 32", "batch 32, by the thesis' rule"}


def test_loading_of_other_batch_sizes_is_drawn_beside_it(loading_answer):
    found = loading_section(loading_answer, [replace(loading_answer, batch_size=256)])
    (shares,) = [one for one in found.figures if one.name == "loading-utilisation"]
    assert [one.name for one in shares.series] == ["batch 32", "batch 256"]


def test_files_in_memory_and_from_storage_are_compared_for_every_batch_size(loading_answer):
    other = replace(loading_answer, batch_size=256, storage_bytes_per_second=2e8)
    (drawn,) = [one for one in loading_section(loading_answer, [other]).figures if one.name == "loading-cache"]
    ratios = {one.name: one.y[1] / one.y[0] for one in drawn.series}
    assert ratios == {"batch 32": pytest.approx(3.5), "batch 256": pytest.approx(1.75)}


def test_host_memory_is_told_even_where_no_worker_was_chosen(loading_answer):
    alone = replace(loading_answer, num_workers=0, shared_bytes=0)
    assert table(alone, "loading-memory")["rows"] == table(loading_answer, "loading-memory")["rows"]


def test_the_thesis_batch_falls_with_host_memory_and_says_what_holds_it(loading_answer):
    rows = ThesisRule(ratios=(3.2,), sample_bytes=2**20, largest_batch=1024).by_memory()
    drawn = table(replace(loading_answer, batch_by_memory=rows), "loading-batch")
    assert [row[2] for row in drawn["rows"]] == [255, 511, 1023, *5 * [1024]]
    assert {row[3] for row in drawn["rows"][:3]} == {"host memory"}
    assert {row[3] for row in drawn["rows"][3:]} == {"largest batch"}
    assert "loading-batch" not in [one["name"] for one in to_json(loading_answer)["tables"]]


def test_most_workers_grow_with_host_memory_and_fall_with_the_batch(loading_answer):
    small, large = (list(row[2:]) for row in table(loading_answer, "loading-memory")["rows"])
    assert small == sorted(small)
    assert all(more <= fewer for fewer, more in zip(small, large, strict=True))
    assert small[0] == int(16 * 2**30 / (2**30 + 2 * 32 * 2**20))


def test_the_time_of_an_epoch_lies_between_two_evaluations(train_answer):
    assert series(train_answer, "train-epochs", "epoch") == {1.0: pytest.approx(1.0)}


def test_the_law_of_memory_is_drawn_only_as_far_as_what_was_measured_stays_in_sight(memory_answer):
    most = memory_answer.max_batch_size
    near, far = (replace(memory_answer, range=(most, high)) for high in (most + 10, 10**7))
    assert [max(series(answer, "memory-peaks", "law")) for answer in (near, far)] == [most + 10, 2 * most]


def test_the_losses_of_updates_and_their_rates_are_drawn(train_answer):
    curve = {"step": [5, 10], "seconds": [1.0, 2.0], "loss": [0.9, 0.4], "rate": [0.1, 0.05]}
    drawn = replace(train_answer, curve=curve)
    assert series(drawn, "train-loss", "training") == {1.0: 0.9, 2.0: 0.4}
    assert len(series(drawn, "train-loss", "validation")) == len(train_answer.evaluations)
    assert series(drawn, "train-rate", "rate") == {5: 0.1, 10: 0.05}


def test_a_run_saved_before_curves_were_kept_shows_its_means(train_answer):
    old = replace(train_answer, curve={})
    assert len(series(old, "train-loss", "training")) == len(old.evaluations)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_narrow_terminal_shows_fewer_columns_of_speed_and_cuts_none(tmp_path, width):
    steps = FakeSteps(host_seconds=0.02, utilisation=lambda size: 0.5)
    answer = api.speed("digits", device="cpu", run=api.Run(out=tmp_path, engine=FakeMachine(steps=steps)))
    console = Console(width=width, record=True, file=io.StringIO())
    print_speed(console, answer)
    text = console.export_text()
    assert "…" not in text
    assert "samples/s" in text
    assert f"{answer.best_samples_per_second:,.0f}" in text
