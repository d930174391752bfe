"""Advice given again from the logbook of `legroom speed`."""

import json

import pytest

from legroom import api
from legroom.errors import JobRaised
from legroom.session import advise_again
from legroom.testing import FakeMachine, FakeSteps, plant_host


def ask(tmp_path, steps=None, *, machine=None, resume=False, **more):
    engine = machine or FakeMachine(steps=steps)
    run = api.Run(out=tmp_path, engine=engine, resume=resume, host=plant_host())
    return api.speed("digits", device="cpu", run=run, **more)


def line(size):
    return 0.01 + 0.0002 * size


class Raises(FakeSteps):
    """A job that raises an error at some sizes."""

    def __init__(self, *, at):
        super().__init__(seconds=line)
        self.at = at

    def time(self, request):
        if self.at(request.batch_sizes[0]):
            raise JobRaised("planted")
        return super().time(request)


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        (FakeSteps(seconds=line, noise=0.02, process_noise=0.1), {}),
        (FakeSteps(seconds=line), {"share": 0.5}),
        (FakeSteps(seconds=line, noise=0.02), {"quick": True}),
        (FakeSteps(seconds=line, utilisation=lambda size: min(0.98, 0.1 + size / 300)), {"rule": "utilisation"}),
        (FakeSteps(seconds=line, available_bytes=200e6), {"batch_sizes": [16, 64, 4096]}),
        (FakeSteps(seconds=line, available_bytes=100e6, bytes_per_sample=1e5), {}),
        (FakeSteps(seconds=line, setting_factors={"OMP_WAIT_POLICY": 0.5, "OMP_NUM_THREADS": 1.4}), {}),
        (Raises(at=lambda size: size == 1), {}),
        (Raises(at=lambda size: size > 100), {}),
    ],
)
def test_the_logbook_alone_gives_the_answer_again(tmp_path, steps, words):
    answer = ask(tmp_path, steps, **words)
    assert advise_again(tmp_path, "speed") == answer
    assert answer.largest_because


def test_an_earlier_run_in_the_folder_does_not_tell(tmp_path):
    gaining = FakeSteps(seconds=line, setting_factors={"OMP_WAIT_POLICY": 0.5})
    ask(tmp_path, gaining)
    answer = ask(tmp_path, FakeSteps(seconds=line, process_noise=0.1, seed=1))
    assert advise_again(tmp_path, "speed") == answer
    assert [item.name for item in answer.recommendations] == ["knee_batch_size"]


def test_what_a_resumed_run_recalled_is_in_it(tmp_path):
    ask(tmp_path, FakeSteps(seconds=line, process_noise=0.1))
    answer = ask(tmp_path, FakeSteps(), resume=True, share=0.7)
    assert advise_again(tmp_path, "speed").points == answer.points


def test_a_resumed_run_takes_an_error_of_the_job_for_what_it_was(tmp_path):
    first = ask(tmp_path, Raises(at=lambda size: size > 100))
    machine = FakeMachine(steps=FakeSteps(seconds=line))
    assert ask(tmp_path, machine=machine, resume=True).largest_because == first.largest_because
    assert machine.asked == []


@pytest.mark.parametrize("sizes", [(), (16, 64, 256)])
def test_a_logbook_that_does_not_say_what_was_asked_is_read_with_what_its_entries_say(tmp_path, sizes):
    answer = ask(tmp_path, FakeSteps(seconds=line), batch_sizes=sizes, seconds=9)
    path = tmp_path / "logbook.jsonl"
    lines = [json.loads(text) for text in path.read_text().splitlines()]
    for entry in lines:
        entry.get("head", {}).pop("question", None)
    path.write_text("".join(json.dumps(entry) + "\n" for entry in lines))
    assert advise_again(tmp_path, "speed") == answer
