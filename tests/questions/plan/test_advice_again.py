"""A plan is made again from its logbook, whatever has become of the answers in the folder since."""

import json
import shutil

import pytest

from legroom import api
from legroom.errors import UsageError
from legroom.reports.saved_answers import read_answers
from legroom.session import advise_again
from legroom.testing import FakeLoaders, FakeMachine, FakeSteps, plant_host


def make_run(folder, **planted):
    steps = FakeSteps(seconds=lambda size: 0.01 + 0.0001 * size, setting_factors={"OMP_WAIT_POLICY": 0.5})
    machine = FakeMachine(steps=steps, loaders=FakeLoaders(num_cores=4), num_samples=60_000, **planted)
    return api.Run(out=folder, engine=machine, host=plant_host())


@pytest.mark.parametrize("first", [(), ("speed",), ("speed", "loading"), ("memory", "loading")])
def test_the_logbook_alone_gives_the_plan_again(tmp_path, first):
    run = make_run(tmp_path, bytes_per_sample=1e4)
    for name in first:
        getattr(api, name)("digits", device="cpu", run=run)
    answer = api.plan("digits", device="cpu", run=run)
    saved = next(found.answer for found in read_answers(tmp_path)[0] if found.question == "plan")
    shutil.rmtree(tmp_path / "answers")
    again = advise_again(tmp_path, "plan")
    assert again == answer == saved


def test_answers_asked_for_later_do_not_change_an_earlier_plan(tmp_path):
    run = make_run(tmp_path, bytes_per_sample=1e4)
    answer = api.plan("digits", device="cpu", run=run)
    api.loading("digits", device="cpu", batch_size=8, run=run)
    assert advise_again(tmp_path, "plan") == answer


def test_passes_and_estimates_are_planned_again(tmp_path):
    run = make_run(tmp_path / "passes", bytes_per_sample=40e6, fixed_bytes=300e6, gradient_bytes=200e6)
    answer = api.plan("digits", device="cpu", memory="1GB", run=run)
    assert answer.accumulation_steps > 1
    assert advise_again(tmp_path / "passes", "plan") == answer
    answer = api.plan("digits", card="t4-16gb", run=make_run(tmp_path / "traced", bytes_per_sample=4e6))
    assert advise_again(tmp_path / "traced", "plan") == answer


def test_a_logbook_that_does_not_hold_the_answers_is_refused(tmp_path):
    api.plan("digits", device="cpu", run=make_run(tmp_path))
    path = tmp_path / "logbook.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        line.get("head", {}).pop("question", None)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(UsageError, match="Run legroom plan again"):
        advise_again(tmp_path, "plan")
