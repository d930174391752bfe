"""Every built-in job is listed with its options, and says where its data come from."""

import pytest

from legroom.job import load_job
from legroom.workloads import WORKLOADS, list_workloads

OPTIONS = {name: {"data": "synthetic"} for name in WORKLOADS if name != "digits"}


@pytest.mark.parametrize("name", WORKLOADS)
def test_each_job_has_what_questions_about_learning_need(name):
    job = load_job(name, OPTIONS.get(name))
    assert set(job.resize) == {"width", "depth"}
    assert job.score is not None
    assert job.valid_data is not None
    assert bool(job.notes) == (name in OPTIONS)


def test_the_list_names_options_with_defaults():
    listed = {workload.name: workload for workload in list_workloads()}
    assert tuple(listed) == WORKLOADS
    assert listed["digits"].options == {"hidden": "128", "model": "'lstm'"}
    assert listed["ptb-small"].options["data"] == "''"
    assert all(workload.summary for workload in listed.values())
