"""Advice on memory is given again from the saved logbook, by every way the question can go."""

import json

import pytest

from legroom import api
from legroom.errors import UsageError
from legroom.logbook import FILE_NAME
from legroom.reports.saved_answers import read_answers
from legroom.session import advise_again
from legroom.testing import FakeMachine, plant_gpu, plant_host

HERE, WITH_CARD = plant_host(), plant_host(gpus=(plant_gpu(),))
WAYS = {
    "host": (HERE, {"device": "cpu", "memory": "2GiB", "effective_batch": 5000}),
    "host, all that is free": (HERE, {"device": "cpu"}),
    "card": (WITH_CARD, {"device": "cuda", "memory": "16GiB", "effective_batch": 370, "num_devices": 4}),
    "card, all that is free": (WITH_CARD, {"device": "cuda"}),
    "estimated": (HERE, {"card": "t4-16gb", "effective_batch": 4096}),
    "thesis": (WITH_CARD, {"device": "cuda", "memory": "16GiB", "rule": "thesis"}),
}


def ask(folder, way, **planted):
    host, words = WAYS[way]
    law = {"bytes_per_sample": 80e6, "fixed_bytes": 4e8, "gradient_bytes": 2e8, "reserve_bytes": 5e7, **planted}
    return api.memory("digits", run=api.Run(out=folder, engine=FakeMachine(**law), host=host), **words)


@pytest.mark.parametrize("way", WAYS)
def test_advice_again_is_the_answer_that_was_given_and_saved(tmp_path, way):
    answer = ask(tmp_path, way, typical_share=0.5)
    assert advise_again(tmp_path, "memory") == answer
    (saved,) = read_answers(tmp_path)[0]
    assert saved.answer == answer


@pytest.mark.parametrize("way", ["host", "card", "thesis"])
def test_a_logbook_that_does_not_name_the_question_gives_the_same_batches(tmp_path, way):
    answer = ask(tmp_path, way)
    forget_question(tmp_path)
    again = advise_again(tmp_path, "memory")
    names = ("max_batch_size", "eval_batch_size", "bytes_per_sample", "allocator", "rule")
    assert [getattr(again, name) for name in names] == [getattr(answer, name) for name in names]


def test_for_which_card_an_estimate_was_made_is_not_made_up(tmp_path):
    ask(tmp_path, "estimated")
    forget_question(tmp_path)
    with pytest.raises(UsageError, match="does not say how much memory"):
        advise_again(tmp_path, "memory")


def forget_question(folder):
    """The logbook as it was before its head held the question."""
    path = folder / FILE_NAME
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        line.get("head", {}).pop("question", None)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
