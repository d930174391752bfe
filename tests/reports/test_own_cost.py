"""The page counts each measurement once, also where a plan asked for it."""

from dataclasses import replace

from legroom import api
from legroom.reports.page import gather_page, render_page
from legroom.reports.saved_answers import save_answer
from legroom.testing import FakeMachine


def test_what_a_plan_asked_is_counted_in_its_own_time_and_what_was_asked_after_it_is_added(tmp_path):
    run = api.Run(out=tmp_path, engine=(machine := FakeMachine()), clock=machine.clock)
    plan = api.plan("digits", device="cpu", run=run)
    page = gather_page(tmp_path)
    parts = {part.question: part for part in page.sections}
    assert parts["speed"].within == parts["memory"].within == "plan"
    assert page.seconds == plan.seconds < sum(part.seconds for part in page.sections)
    assert f"{parts['speed'].seconds:.1f} s of the plan" in render_page(page)
    later = api.speed("digits", device="cpu", quick=True, run=run)
    save_answer(tmp_path, replace(later, seconds=70.0))
    assert gather_page(tmp_path).seconds == plan.seconds + 70.0
