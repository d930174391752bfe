"""What a plan's run would take on cards that can be rented: in the answer, on the page and again from the logbook."""

import io

import pytest
from rich.console import Console

from legroom import api
from legroom.errors import UsageError
from legroom.job import Settings
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
    assert [row["place_by_money"] for row in answer.offers] in ([1, 2], [2, 1])
    assert sum(isinstance(request, MeasureDevice) for request in machine.asked) == 1
    said = io.StringIO()
    print_plan(Console(file=said, width=200), answer)
    (table,) = [table for table in section(answer).tables if table.name == "plan-offers"]
    for row in table.rows:
        assert row[0] in said.getvalue()
    assert "forecast from published peaks" in table.title


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


def test_a_plan_that_keeps_the_jobs_own_settings_says_that_nothing_was_forecast(planted, tmp_path):
    own = Settings(batch_size=128, learning_rate=planted.LEARNER.best_rate_at(128), num_epochs=20)
    answer = planted.ask(tmp_path, planted.plant(own=own), offers=OFFERS)
    assert answer.kept
    assert answer.offers == []
    assert any("What other cards would take was not forecast" in sentence for sentence in answer.missing)


def test_offers_that_cannot_be_read_are_refused_before_anything_is_asked(planted, tmp_path):
    machine = planted.plant()
    with pytest.raises(UsageError, match="write a card and the price of its hour"):
        planted.ask(tmp_path, machine, offers="h100")
    assert machine.asked == []
