"""What a child says of a job: how long an epoch is, in the samples that its batches count."""

from dataclasses import replace
from pathlib import Path

import pytest

from legroom.child.built_job import BuiltJob
from legroom.child.description import describe
from legroom.job_address import address_of
from legroom.requests import Describe

JOBS = Path(__file__).parents[1] / "jobs"


def built(name, **options):
    return BuiltJob(address_of(name, options))


@pytest.mark.parametrize(("name", "window"), [("ptb-small", 20), ("char-lm", 150)])
def test_of_a_running_text_an_epoch_has_as_many_rows_as_windows_are_cut_from_it(name, window):
    job = built(name, data="synthetic")
    said = describe(Describe(), job)
    assert said.epoch_samples == pytest.approx(said.num_samples / window, rel=0.02)
    size = 2 * said.baseline["batch_size"]
    batches = job.job.loader(job.train.dataset, replace(job.job.baseline, batch_size=size))
    assert said.epoch_samples // size == pytest.approx(len(batches), abs=1)


def test_elsewhere_it_has_the_samples_of_its_data_and_a_loader_without_a_length_leaves_it_open():
    said = describe(Describe(), built("digits"))
    assert said.epoch_samples == said.num_samples == 1437
    told = describe(Describe(), built(f"{JOBS / 'carried_state.py'}:job"))
    assert replace(told, epoch_batches=None).epoch_samples is None


@pytest.mark.parametrize(("name", "does"), [("convnet", True), ("plain", False)])
def test_a_model_that_normalises_over_the_batch_is_told(name, does):
    assert describe(Describe(), built(f"{JOBS / name}.py:job")).normalises_by_batch is does
