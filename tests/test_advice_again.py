"""Every question that keeps a logbook is advised again from it, whole: as it was asked, though all was recalled."""

import pytest

from legroom import api
from legroom.questions import QUESTIONS, part_of
from legroom.session import advise_again
from legroom.testing import FakeMachine, plant_host

KEPT = [name for name in QUESTIONS if hasattr(part_of(name, "records"), "QUESTION")]
PLAN = 'job = "digits"\ntarget = "loss=0.5"\n[batch_size]\nvalue = 64\n[num_steps]\nvalue = 100\n'
WORDS = {
    "speed": {"batch_sizes": (16, 64, 256)},
    "rate": {"target": "loss=0.12"},
    "size": {"seeds": 1},
    "train": {"num_steps": 100},
}
"""What a planted job cannot be asked without, or what leaves nothing to be measured for the words below."""
OTHER = {
    "speed": {"share": 0.7},
    "sweep": {"rates": (1e-3, 1e-2)},
    "devices": {"price": 2.5},
}
"""Words that ask for another answer, for which nothing more has to be measured."""


def words_of(question, folder):
    """What a question is asked with; two of them are about a plan."""
    if question not in ("prove", "check"):
        return {"job": "digits", **WORDS.get(question, {})}
    (folder / "planted.toml").write_text(PLAN)
    return {"job": "digits", "plan": folder / "planted.toml"}


def ask(question, machine, folder, *, resume=False, **words):
    run = api.Run(out=folder / "out", engine=machine, host=plant_host(), clock=machine.clock, resume=resume)
    return getattr(api, question)(device="cpu", run=run, **words)


@pytest.mark.parametrize("question", KEPT)
def test_the_logbook_alone_gives_the_whole_answer_again_of_a_run_that_recalled_all_of_it_too(question, tmp_path):
    words = words_of(question, tmp_path)
    answer = ask(question, FakeMachine(), tmp_path, **words)
    assert advise_again(tmp_path / "out", question) == answer
    machine = FakeMachine()
    answer = ask(question, machine, tmp_path, resume=True, **words | OTHER.get(question, {}))
    assert [request.kind for request in machine.asked] == (["train"] if question == "train" else [])
    assert advise_again(tmp_path / "out", question) == answer
