"""What a plan says of its questions fits together, and names what is missing."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from pydantic import TypeAdapter

from legroom.job import Settings
from legroom.logbook import read_records
from legroom.questions.loading.records import CompareLoaders
from legroom.questions.memory.records import StepPeaks
from legroom.questions.plan import ask_faster
from legroom.questions.plan.found import found_words
from legroom.questions.plan.records import PlanQuestion


@pytest.mark.parametrize(
    ("seeds_there", "extrapolated", "told", "untold"),
    [
        ((1, 3), (7094.0, None), "with most seeds at batches of", "(extrapolated)."),
        ((0, 3), (7094.0, 9000.0), "gets there after 7,094 to 9,000 updates (extrapolated)", "most seeds"),
        (None, None, "its curve does not lead there", "most seeds"),
    ],
)
def test_a_target_that_was_not_reached_is_told_with_what_it_would_take(
    planted, tmp_path, seeds_there, extrapolated, told, untold
):
    planted.ask(tmp_path, planted.plant(), budget=60.0)
    question = TypeAdapter(PlanQuestion).validate_python(read_records(tmp_path, "plan").head.question)
    missed = replace(question.rates[0], reached=False, seeds_there=seeds_there, extrapolated_steps=extrapolated)
    assert told in found_words(missed)
    assert untold not in found_words(missed)


@pytest.mark.parametrize("leads_there", [True, False])
def test_more_budget_is_advised_where_a_curve_leads_to_the_target(planted, tmp_path, monkeypatch, leads_there):
    if not leads_there:
        monkeypatch.setattr("legroom.questions.rate.advice.extrapolate", lambda best, question: None)
    machine = planted.plant(learner=replace(planted.LEARNER, s_min=4000))
    sentence = next(
        each for each in planted.ask(tmp_path, machine, budget=60.0).missing if each.startswith("No rate reached")
    )
    assert ("Raise --budget" in sentence) == ("(extrapolated)" in sentence) == leads_there
    assert "ame a --target that the job can reach" in sentence


def test_what_was_not_asked_is_told_with_its_batch_until_it_is_asked():
    """Asked at the batch that was chosen, and at the job's own, which stays."""
    search = SimpleNamespace(question=SimpleNamespace(missing=["Else"]), ask=lambda name, function: "asked")
    search.learn = lambda missing: setattr(search.question, "missing", missing)
    search.miss = lambda sentence: search.question.missing.append(sentence)
    for left, size, told in ((3.0, 256, "at batches of 256"), (3.0, 32, "at batches of 32"), (90.0, 32, None)):
        search.left = lambda left=left: left
        found = ask_faster._ask(search, "variants", lambda: None, 20, 0.0, size, {})
        assert found == (None if told else "asked")
        assert len(search.question.missing) == (2 if told else 1)
        assert told is None or told in search.question.missing[-1]


def test_memory_is_proved_beside_the_workers_that_stay_not_those_of_a_choice_that_was_left(planted, tmp_path):
    own = Settings(batch_size=128, learning_rate=planted.LEARNER.best_rate_at(128), num_epochs=20)
    machine = planted.plant(own=own)
    machine.others[0].data_wait_share = 0.5
    answer = planted.ask(tmp_path, machine, target="same")
    assert answer.num_workers == 0
    assert any(isinstance(request, CompareLoaders) for request in machine.asked)
    proofs = [request for request in machine.asked if isinstance(request, StepPeaks) and request.proof]
    assert {request.num_workers for request in proofs} == {answer.num_workers}
