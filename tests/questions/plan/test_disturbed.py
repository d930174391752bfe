"""A pace that something disturbed decides nothing: it is bounded by larger batches, and what it spoils is tried out."""

from dataclasses import replace

import pytest
from pydantic import TypeAdapter

from legroom.logbook import read_records
from legroom.questions.plan.evidence import paces
from legroom.questions.plan.factors import joined, pace_of
from legroom.questions.plan.forecast import forecast_of
from legroom.questions.plan.records import PlanQuestion
from legroom.questions.rate.records import GrowTrunk


@pytest.fixture
def question(planted, tmp_path):
    """What a plan knew before it was tried out."""
    planted.ask(tmp_path, planted.plant())
    whole = TypeAdapter(PlanQuestion).validate_python(read_records(tmp_path, "plan").head.question)
    return replace(whole, rehearsals=())


def test_no_update_is_heard_to_take_longer_than_one_of_a_larger_batch(question):
    pace, size = pace_of(question), forecast_of(question).chosen.batch_size
    disturbed = replace(question, paces={size: 100 * pace.step(size, 0)})
    larger = min(each for each in pace.sizes if each > size)
    at, doubt = joined(disturbed, pace, size, 0)
    assert pace.step(size, 0) < at.step(size, 0) <= pace.step(larger, 0)
    assert doubt < joined(replace(question, paces={}), pace, size, 0)[1] * pace.step(larger, 0) / pace.step(size, 0)


def test_one_disturbed_trunk_of_several_leaves_the_pace_of_the_others(planted, tmp_path):
    machine = planted.plant()
    planted.ask(tmp_path, machine)
    entries = [entry for entry in read_records(tmp_path, "rate").entries if isinstance(entry.request, GrowTrunk)]
    before = paces(entries, "cpu", "fp32", 0)
    size = next(iter(before))
    place = next(
        place
        for place, entry in enumerate(entries)
        if entry.request.settings["batch_size"] == size and entry.result.grown_steps
    )
    slow = replace(entries[place].result, grown_seconds=50 * entries[place].result.grown_seconds)
    entries[place] = replace(entries[place], result=slow)
    assert paces(entries, "cpu", "fp32", 0) == pytest.approx(before)


def test_what_may_be_sooner_by_its_pace_alone_is_worth_trying_out(question):
    """In the middle of its range it is not; the far end of what is heard of its updates is no reason to give it up."""
    found = forecast_of(question)
    seconds = 0.5 * (found.range[0] + found.chosen.seconds / found.steps_spread)
    run = question.runs[0]
    num_steps = round((seconds - found.baseline.candidate.num_evaluations * run.evaluation_seconds) / run.step_seconds)
    sooner = forecast_of(replace(question, runs=[replace(run, steps_to_target=num_steps)]))
    assert sooner.range[0] < sooner.baseline.seconds < sooner.chosen.seconds / sooner.steps_spread
    assert sooner.is_worth_trying
    assert not sooner.is_better
