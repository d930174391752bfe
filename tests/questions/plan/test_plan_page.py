"""The page of a plan: its controls begin where its forecast is, and say what stands in for what nobody measured."""

import math
from dataclasses import replace

import pytest

from legroom.laws import what_if
from legroom.questions.plan.view import section
from legroom.questions.plan.what_if import what_if_of
from legroom.reports.page import gather_page
from legroom.reports.what_if import PARTS


@pytest.fixture(scope="module")
def answer(planted, tmp_path_factory):
    return planted.ask(tmp_path_factory.mktemp("plan"), planted.plant())


def test_the_controls_begin_at_the_plans_own_forecast(answer):
    asked = what_if_of(answer)
    low, likely, high = what_if.seconds_range(asked.factors)
    assert likely == pytest.approx(answer.predicted_seconds)
    assert (low, high) == pytest.approx(answer.predicted_range)
    assert asked.factors["batch_size"] * asked.factors["num_passes"] in asked.candidates
    assert asked.target == "loss 0.12"
    few = replace(answer, factors={**answer.factors, "num_samples": 300})
    assert max(asked.candidates) > 300 >= max(what_if_of(few).candidates), "no update is larger than the data"


@pytest.fixture(scope="module")
def kept(planted, tmp_path_factory):
    own = replace(planted.OWN, batch_size=256, learning_rate=0.1, num_epochs=10)
    return planted.ask(tmp_path_factory.mktemp("kept"), planted.plant(own=own))


@pytest.mark.parametrize("more", [{}, {"num_workers": 2}, {"predicted_seconds": 50.0, "predicted_range": (40.0, 62.5)}])
def test_where_the_own_settings_stay_the_controls_begin_at_their_run(kept, more):
    assert kept.kept
    own = {**kept.factors["own"], "batch_size": 48}
    seconds = more.get("predicted_seconds", kept.predicted_seconds)
    own["step_seconds"] = (seconds - own["num_evaluations"] * own["evaluation"]) / own["num_steps"]
    answer = replace(kept, factors={**kept.factors, "own": own, "batch_size": 512, "num_workers": 7}, **more)
    asked = what_if_of(answer)
    low, likely, high = what_if.seconds_range(asked.factors)
    assert (likely, high) == pytest.approx((answer.predicted_seconds, answer.predicted_range[1]))
    assert low == pytest.approx(answer.predicted_range[0])
    assert (asked.factors["batch_size"], asked.factors["num_workers"]) == (48, answer.num_workers)
    assert what_if.steps_range(asked.factors) == pytest.approx([own["num_steps"]] * 2)
    assert 48 in asked.candidates
    assert asked.mark == "as recommended"
    assert "as if its rate were moved" in asked.guessed["batch_size"]


def test_the_page_of_a_plan_shows_what_it_found_of_memory_right_below(planted, tmp_path):
    answer = planted.ask(tmp_path, planted.plant())
    assert not list((tmp_path / "answers").glob("memory*"))
    plan, memory, *others = gather_page(tmp_path).sections
    assert (plan.question, memory.question) == ("plan", "memory")
    proved = next(item for item in answer.recommendations if item.name == "max_batch_size")
    assert memory.section.summary.startswith(f"A batch of {proved.value:,} fits")
    assert {"speed", "rate"} <= {part.question for part in others}
    (tmp_path / "logbook.jsonl").unlink()
    assert "memory" not in [part.question for part in gather_page(tmp_path).sections]


def test_an_easier_target_takes_fewer_updates_by_what_trials_at_the_rate_showed(answer, planted):
    asked = what_if_of(answer).factors
    values, updates = asked["values"], asked["updates"]
    assert values == sorted(values, reverse=True), "losses fall"
    assert values[-1] <= asked["target_value"] == asked["planned_value"] == 0.12 < values[0]
    assert updates == sorted(updates)
    easier = {**asked, "target_value": 0.3}
    truth = math.log(planted.LEARNER.start_loss / 0.3) / math.log(planted.LEARNER.start_loss / 0.12)
    found = what_if.steps_range(easier)[0] / what_if.steps_range(asked)[0]
    assert found == pytest.approx(truth, rel=0.15)
    assert what_if.seconds_range(easier)[1] < what_if.seconds_range(asked)[1]


def test_before_and_after_open_the_section_and_the_figure_stacks_the_parts(answer):
    shown = section(answer)
    assert [table.name for table in shown.tables if table.opens] == ["plan-compared"]
    (drawn,) = shown.figures
    assert drawn.stacked
    assert drawn.name == shown.what_if.figure
    assert [one.name for one in drawn.series[:-1]] == list(PARTS)
    whole = [sum(one.y[place] for one in drawn.series[:-1]) for place in range(len(drawn.series[0].x))]
    assert whole == pytest.approx(drawn.series[-1].y), "the parts make up the whole"


@pytest.mark.parametrize(
    ("unknown", "control"),
    [
        ({"fixed_bytes": None, "bytes_per_sample": None, "device_bytes": None}, "device_bytes"),
        ({"inline_seconds": 0.0, "worker_seconds": 0.0}, "num_workers"),
        ({"inline_seconds": 0.001, "worker_seconds": 0.0, "num_workers": 0}, "num_workers"),
        ({}, "bandwidth"),
    ],
)
def test_what_nobody_measured_is_told_beside_its_control_and_leaves_the_page_whole(answer, unknown, control):
    asked = what_if_of(replace(answer, factors={**answer.factors, **unknown}))
    assert control in asked.guessed
    assert all(low > 0 for low, _, _ in [what_if.seconds_range(asked.factors)])
    assert what_if.most_in_memory(asked.factors) >= asked.factors["batch_size"]


def test_a_critical_batch_that_nobody_measured_keeps_the_updates_at_the_plans_own_size(answer):
    unknown = {**answer.factors, "critical_batch_size": None, "least_steps": 700.0}
    asked = what_if_of(replace(answer, factors=unknown))
    assert what_if.steps_range(asked.factors) == [700.0, 700.0]


def test_settings_that_nobody_gave_a_value_are_not_listed_with_an_empty_one(answer):
    (every,) = [table for table in section(answer).tables if table.name == "plan-settings"]
    assert ("model_size", "") in [(item.name, item.value) for item in answer.recommendations]
    assert "model_size" not in every.rows[-1][-1]


def test_a_plan_without_a_forecast_has_no_controls(answer):
    shown = section(replace(answer, factors={}))
    assert shown.what_if is None
    assert shown.figures == []
