"""Which child a request reaches."""

import pytest

from legroom.environments import STEADY_MALLOC
from legroom.job_address import JobAddress
from legroom.questions.memory.records import StepPeaks, TraceMemory
from legroom.questions.speed.records import TimeSteps
from legroom.requests import Describe
from legroom.session import Run, open_session
from legroom.testing import FakeMachine

DESCRIBE, PEAKS = Describe(), StepPeaks(device="cpu", batch_size=2)
ON_GPU = StepPeaks(device="cuda", batch_size=2, anew=True)
PROOF = StepPeaks(device="cpu", batch_size=2, proof=True)
STEPS, STEPS_ON_GPU = (TimeSteps(device=device, batch_sizes=(2,), run=1) for device in ("cpu", "cuda"))


class Watched(FakeMachine):
    """Notes which children were to be alone."""

    def __init__(self):
        super().__init__()
        self.alone = []

    def start(self, address, environment, *, alone=False):
        self.alone.append(alone)
        return super().start(address, environment, alone=alone)


@pytest.mark.parametrize(
    ("alone", "requests", "started"),
    [
        (False, [DESCRIBE, ON_GPU, DESCRIBE], [False]),
        (False, [TraceMemory()], [False]),
        (False, [PROOF], [True]),
        (False, [STEPS, STEPS_ON_GPU], [True, False]),
        (True, [DESCRIBE, PEAKS, DESCRIBE], [True]),
        (False, [DESCRIBE, PEAKS, DESCRIBE], [False, True]),
    ],
    ids=["shared", "trace", "proof", "steps", "opened so", "found out later"],
)
def test_what_forks_share_is_measured_in_children_that_share_none(tmp_path, alone, requests, started):
    engine = Watched()
    run = Run(out=tmp_path, engine=engine)
    with open_session("memory", JobAddress(text="digits"), run, STEADY_MALLOC, alone=alone) as session:
        for request in requests:
            session.measure(request)
    assert engine.alone == started
