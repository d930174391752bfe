"""A plain job of which one rank fails at its 13th update where the environment says so; the job itself stays the same.

TROUBLE="dies PATH": rank 1 kills itself, unless PATH exists, which it then does.
TROUBLE=hangs: rank 1 sleeps.
"""

import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import legroom

sys.path.insert(0, str(Path(__file__).parents[1]))
import plain

FIRST = 13


def job() -> legroom.Job:
    kind, _, path = os.environ.get("TROUBLE", "").partition(" ")
    num_updates = 0

    def loss(model, batch):
        nonlocal num_updates
        num_updates += model.training
        if num_updates == FIRST and os.environ.get("RANK") == "1":
            if kind == "dies" and not Path(path).exists():
                Path(path).touch()
                os.kill(os.getpid(), signal.SIGKILL)
            if kind == "hangs":
                time.sleep(600)
        return plain.loss(model, batch)

    return replace(plain.job(), loss=loss)
