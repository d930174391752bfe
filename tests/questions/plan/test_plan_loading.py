"""Loaders are compared where workers could save the plan's run something, and not in vain."""

from dataclasses import replace

import pytest

from legroom.job import Settings
from legroom.questions.loading.records import CompareLoaders

OWN = Settings(batch_size=32, learning_rate=0.02, num_epochs=20)


@pytest.mark.parametrize(
    ("waits", "num_epochs", "told"),
    [
        (0.01, 20, "% of a step, so workers were not compared"),
        (0.02, 1, "of the whole run, so workers were not compared"),
        (0.5, 20, None),
    ],
)
def test_workers_are_compared_where_they_could_save_the_run_something(planted, tmp_path, waits, num_epochs, told):
    machine = planted.plant(own=replace(OWN, num_epochs=num_epochs))
    machine.others[0].data_wait_share = waits
    answer = planted.ask(tmp_path, machine, target="same")
    asked = [request for request in machine.asked if isinstance(request, CompareLoaders)]
    assert bool(asked) == ("loading" in answer.spent) == (told is None)
    if told is not None:
        assert any(note.endswith(told) for note in answer.notes)
