"""Advice given again from the logbook of `legroom loading`."""

import json

import pytest

from legroom.errors import JobRaised
from legroom.session import advise_again
from legroom.testing import FakeLoaders

NOISY = {"prepare_seconds": 0.1, "step_seconds": 1e-3, "noise": 0.1}


def forget_the_question(folder):
    """Make the logbook one from before its heads held the question."""
    path = folder / "logbook.jsonl"
    lines = [json.loads(text) for text in path.read_text().splitlines()]
    for line in lines:
        line.get("head", {}).pop("question", None)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.mark.parametrize(
    ("loaders", "words"),
    [
        (FakeLoaders(**NOISY, num_cores=4), {}),
        (FakeLoaders(**NOISY, num_cores=4, edge=3), {"batch_size": 100}),
        (FakeLoaders(**NOISY, unpinned_gain=1.2, storage_seconds=0.01), {"device": "cuda"}),
        (FakeLoaders(picklable=False), {}),
        (FakeLoaders(prepare_seconds=0.4, most_workers=5), {}),
        (FakeLoaders(), {"num_devices": 4}),
        (FakeLoaders(prepare_seconds=0.045), {"rule": "thesis"}),
        (FakeLoaders(prepare_seconds=0.045), {"rule": "thesis", "batch_size": 50}),
    ],
)
def test_the_logbook_alone_gives_the_answer_again(ask, tmp_path, loaders, words):
    answer = ask(loaders, **words)
    assert advise_again(tmp_path, "loading") == answer


def test_an_earlier_run_in_the_folder_does_not_tell(ask, tmp_path):
    ask(FakeLoaders(**NOISY, unpinned_gain=1.2), device="cuda")
    answer = ask(FakeLoaders(**NOISY, seed=1), device="cuda")
    assert advise_again(tmp_path, "loading") == answer


class Raises(FakeLoaders):
    """A job that raises an error once loader and step run together."""

    def compare(self, request):
        if request.what == "together":
            raise JobRaised("planted")
        return super().compare(request)


def test_what_a_resumed_run_recalled_is_in_it(ask, tmp_path):
    with pytest.raises(JobRaised, match="--resume goes on"):
        ask(Raises(**NOISY), device="cuda")
    answer = ask(FakeLoaders(**NOISY, seed=1), device="cuda", resume=True)
    assert advise_again(tmp_path, "loading") == answer


@pytest.mark.parametrize(
    "words", [{}, {"batch_size": 100}, {"device": "cuda"}, {"rule": "thesis"}, {"rule": "thesis", "batch_size": 100}]
)
def test_a_logbook_that_does_not_say_what_was_asked_is_read_with_what_its_entries_say(ask, tmp_path, words):
    answer = ask(FakeLoaders(prepare_seconds=0.1, step_seconds=0.01, noise=0.02), **words)
    forget_the_question(tmp_path)
    again = advise_again(tmp_path, "loading")
    names = ("num_workers", "batch_size", "samples_per_second", "shares", "points", "law", "rule", "range")
    assert {name: getattr(again, name) for name in names} == {name: getattr(answer, name) for name in names}
    assert again.max_workers_by_memory >= again.num_workers  # how much was free, nobody wrote down
