"""The thesis' rule: its formula, and what is told when it is asked for."""

import pytest

from legroom.errors import DoesNotFit
from legroom.questions.loading.thesis import ThesisRule
from legroom.testing import FakeLoaders


def test_it_takes_the_larger_ratio_and_multiplies_it_by_the_devices():
    rest = {"ratios": (0.4, 3.1), "sample_bytes": 1e3, "largest_batch": 190}
    assert ThesisRule(**rest, num_devices=1).choose(1e12) == (4, 190)
    assert ThesisRule(**rest, num_devices=4).choose(1e12) == (13, 190)


def test_it_keeps_all_batches_below_the_memory():
    workers, batch = ThesisRule(ratios=(7.5,), sample_bytes=1e7, largest_batch=500).choose(8e9)
    assert workers * batch * 1e7 < 8e9 <= workers * (batch + 1) * 1e7


def test_the_rule_of_the_thesis_is_its_formula(ask):
    loaders = FakeLoaders(prepare_seconds=0.045, step_seconds=0.01)
    answer = ask(loaders, rule="thesis", batch_size=100)
    assert (answer.num_workers, answer.batch_size) == (5, 100)
    assert ask(loaders, rule="thesis", batch_size=100, num_devices=2).num_workers == 9


def test_the_thesis_takes_the_jobs_own_batch_for_the_largest_where_none_is_named(ask):
    loaders = FakeLoaders(prepare_seconds=0.045, step_seconds=0.01)
    answer = ask(loaders, rule="thesis")
    assert (answer.num_workers, answer.batch_size) == (5, answer.baseline["batch_size"])
    assert any(f"the job's own {answer.batch_size:,} stands for it" in note for note in answer.notes)


def test_workers_of_the_thesis_that_cannot_run_are_no_answer(ask):
    with pytest.raises(DoesNotFit, match="5 workers are needed at a batch of 100, and they could not run: planted"):
        ask(FakeLoaders(prepare_seconds=0.045, step_seconds=0.01, most_workers=4), rule="thesis", batch_size=100)


def test_more_workers_than_a_job_may_have_are_no_answer(ask):
    with pytest.raises(DoesNotFit, match="500 workers are needed, and a job may have"):
        ask(FakeLoaders(prepare_seconds=5.0, step_seconds=0.01), rule="thesis", batch_size=100)


def test_the_thesis_batch_is_told_for_hosts_of_other_sizes(ask):
    rows = ask(FakeLoaders(prepare_seconds=0.045, step_seconds=0.01), rule="thesis", batch_size=100).batch_by_memory
    batches = [row["batch_size"] for row in rows]
    assert {row["num_workers"] for row in rows} == {5}
    assert batches == sorted(batches)
    assert batches[0] < batches[-1] == 100
