"""What a run came to is told again from its logbook."""

import json

import pytest

from legroom import api
from legroom.errors import Diverged, UsageError
from legroom.questions.train.records import default_question
from legroom.reports.saved_answers import read_answers
from legroom.session import advise_again
from legroom.testing import FakeMachine, FakeRuns, plant_host
from legroom.training.records import Trained


def ask(folder, *, machine=None, resume=False, **more):
    engine = machine or FakeMachine(runs=FakeRuns(chance=0.3))
    run = api.Run(out=folder, engine=engine, resume=resume, host=plant_host())
    return api.train("digits", device="cpu", run=run, **more)


def forget_question(folder):
    """The logbook as it was before its head held the question."""
    path = folder / "logbook.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        line.get("head", {}).pop("question", None)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.mark.parametrize(
    "words",
    [
        {"num_steps": 100},
        {"num_steps": 300, "target": "score=0.7", "batch_size": 64, "schedule": "stable:shape=sqrt"},
        {"num_steps": 10, "target": "loss=0.001", "patience": 3, "clip_norm": 1.5},
    ],
)
def test_the_logbook_alone_gives_the_answer_again(tmp_path, words):
    answer = ask(tmp_path, **words)
    assert advise_again(tmp_path, "train") == answer
    (saved,) = read_answers(tmp_path)[0]
    assert saved.answer == answer
    forget_question(tmp_path)
    assert advise_again(tmp_path, "train") == answer


def test_of_several_runs_the_last_is_told(tmp_path):
    ask(tmp_path, num_steps=100)
    ask(tmp_path, num_steps=100, learning_rate=0.5)
    last = ask(tmp_path, num_steps=100, resume=True)
    assert advise_again(tmp_path, "train") == last
    forget_question(tmp_path)
    assert advise_again(tmp_path, "train") == last


def test_a_run_that_diverged_is_told_as_the_error_it_was(tmp_path):
    class Diverging(FakeMachine):
        def answer(self, request):
            found = super().answer(request)
            if isinstance(found, Trained):
                object.__setattr__(found, "stopped_because", "diverged")
            return found

    with pytest.raises(Diverged) as first:
        ask(tmp_path, machine=Diverging(), num_steps=100)
    with pytest.raises(Diverged) as again:
        advise_again(tmp_path, "train")
    assert (str(again.value), again.value.facts) == (str(first.value), first.value.facts)


def test_a_run_that_was_killed_came_to_nothing(tmp_path):
    ask(tmp_path, num_steps=100)
    path = tmp_path / "logbook.jsonl"
    path.write_text("".join(f"{line}\n" for line in path.read_text().splitlines() if '"trained"' not in line))
    with pytest.raises(UsageError, match="Let it go on with legroom train --resume"):
        advise_again(tmp_path, "train")


def test_a_logbook_without_a_run_is_refused(tmp_path):
    ask(tmp_path, num_steps=100)
    records = type("Records", (), {"entries": []})()
    with pytest.raises(UsageError, match="holds no training run"):
        default_question(records)
