"""Asks `legroom size` of planted trials."""

import pytest

from legroom import api
from legroom.job import Settings
from legroom.questions.size.records import TrainSize
from legroom.testing import FakeMachine, plant_host


@pytest.fixture
def ask():
    """The answer, and the machine that gave it."""

    def answer(fake, out, *, resume=False, planted=None, host=None, device="cpu", seed=0, **words):
        machine = FakeMachine(fake, **{"baseline": Settings(batch_size=32), **(planted or {})})
        host = host or plant_host()
        run = api.Run(out=out, engine=machine, host=host, clock=machine.clock, resume=resume, seed=seed)
        return api.size("digits", device=device, run=run, **{"budget": 1e6, "seeds": 1, **words}), machine

    return answer


@pytest.fixture
def trials():
    """The trials that reached a child."""
    return lambda machine: [request for request in machine.asked if isinstance(request, TrainSize)]
