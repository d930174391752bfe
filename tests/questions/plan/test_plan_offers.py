"""What a plan's run would take on cards that can be rented: in the answer, on the page and again from the logbook."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from legroom import api
from legroom.errors import UsageError
from legroom.job import Settings
from legroom.offers import offers_table
from legroom.plan_file import read_plan
from legroom.questions.plan.more_factors import busy_at
from legroom.questions.plan.view import print_plan, section
from legroom.requests import MeasureDevice
from legroom.session import advise_again

OFFERS = "l4=0.7/h,h100=2.9/h"


@pytest.fixture(scope="module")
def asked(planted, tmp_path_factory):
    folder, machine = tmp_path_factory.mktemp("offers"), planted.plant()
    return planted.ask(folder, machine, offers=OFFERS), folder, machine


def test_offers_are_ranked_in_the_answer_the_terminal_and_the_page(asked):
    answer, _, machine = asked
    assert [row["name"] for row in answer.offers] == ["h100-80gb", "l4-24gb"]
    cheapest = min(answer.offers, key=lambda row: row["money"]["value"])
    assert [row["place_by_money"] for row in answer.offers] == [1 if row is cheapest else 2 for row in answer.offers]
    assert sum(isinstance(request, MeasureDevice) for request in machine.asked) == 1
    said = io.StringIO()
    print_plan(Console(file=said, width=200), answer)
    (table,) = [table for table in section(answer).tables if table.name == "plan-offers"]
    for row in table.rows:
        assert row[0] in said.getvalue()
    assert "forecast from published peaks" in table.title


def test_no_card_is_faster_than_what_the_host_does_of_each_update(asked, planted):
    answer, _, _ = asked
    assert all(row["seconds"]["value"] > answer.num_steps / 2 * planted.step_seconds(0) for row in answer.offers)


def test_how_busy_a_device_is_follows_its_own_clock_at_the_nearest_size():
    clocks = ((16, 0.001, 0.01), (64, 0.03, 0.04), (256, None, 0.2))
    points = [{"batch_size": size, "device_seconds": own, "median_seconds": step} for size, own, step in clocks]
    assert [busy_at(points, size) for size in (8, 80, 1000)] == pytest.approx([0.1, 0.75, 0.75])
    assert busy_at(points[2:], 256) is None


def test_explaining_the_plan_gives_the_same_table(asked):
    answer, folder, _ = asked
    assert api.explain(folder / "plan.toml", offers=OFFERS).offers == answer.offers


def test_offers_are_told_again_from_the_logbook(asked):
    answer, folder, _ = asked
    assert advise_again(folder, "plan") == answer


def test_a_card_costs_as_many_times_as_a_plan_has_devices(planted, tmp_path):
    words = {"num_gpus": 4, "offers": OFFERS, "batch_size": 64}
    one = planted.ask(tmp_path / "one", planted.plant(), devices="1", **words)
    two = planted.ask(tmp_path / "two", planted.plant(), devices="2", **words)
    for alone, both in zip(one.offers, two.offers, strict=True):
        hours = both["seconds"]["value"] / alone["seconds"]["value"]
        assert both["money"]["value"] == pytest.approx(2 * hours * alone["money"]["value"])


def seconds_on_the_same_card(folder, answer):
    """Of the plan in the folder as if it had been made on an H200, on an H200."""
    plan = replace(read_plan(folder / "plan.toml"), machine="Linux x86_64, 16 cores, NVIDIA H200")
    (row,) = offers_table("h200=4/h", plan, answer.factors, [])
    return row["seconds"]["value"]


def test_the_same_card_takes_what_the_plan_foretells(asked):
    answer, folder, _ = asked
    assert not answer.kept
    assert seconds_on_the_same_card(folder, answer) == pytest.approx(answer.predicted_seconds)


def test_a_plan_that_keeps_the_jobs_own_settings_forecasts_their_run_elsewhere(planted, tmp_path):
    own = Settings(batch_size=128, learning_rate=planted.LEARNER.best_rate_at(128), num_epochs=20)
    answer = planted.ask(tmp_path, planted.plant(own=own), offers=OFFERS)
    assert answer.kept
    assert seconds_on_the_same_card(tmp_path, answer) == pytest.approx(answer.predicted_seconds)
    assert [row["name"] for row in answer.offers] == ["h100-80gb", "l4-24gb"]
    assert api.explain(tmp_path / "plan.toml", offers=OFFERS).offers == answer.offers


def test_without_a_forecast_here_none_is_made_for_other_cards(planted, tmp_path):
    answer = planted.ask(tmp_path, planted.plant(has_valid=False), target="same", offers=OFFERS)
    assert answer.offers == []
    assert any("What other cards would take was not forecast" in sentence for sentence in answer.missing)


def test_offers_that_cannot_be_read_are_refused_before_anything_is_asked(planted, tmp_path):
    machine = planted.plant()
    with pytest.raises(UsageError, match="write a card and the price of its hour"):
        planted.ask(tmp_path, machine, offers="h100")
    assert machine.asked == []
