"""A plain job whose training goes wrong where the environment says so; the job itself stays the same.

TROUBLE="slow PATH": from the 23rd update on a step takes a quarter of a second, and PATH exists.
TROUBLE=nan: the loss of that update is NaN.
TROUBLE="dies PATH": rank 1 kills itself at its 13th update, unless PATH exists, which it then does.
TROUBLE="hangs PATH": rank 1 does nothing any more from its 13th update on, and PATH exists.
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

FIRST, FIRST_OF_RANKS = 23, 13


def fail(kind, path):
    if kind == "dies" and not Path(path).exists():
        Path(path).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "hangs":
        Path(path).touch()
        time.sleep(600)


def job() -> legroom.Job:
    kind, _, path = os.environ.get("TROUBLE", "").partition(" ")
    num_updates = 0

    def loss(model, batch):
        nonlocal num_updates
        num_updates += model.training
        value = plain.loss(model, batch)
        if model.training and num_updates >= FIRST and kind == "slow":
            Path(path).touch()
            time.sleep(0.25)
        if num_updates == FIRST_OF_RANKS and os.environ.get("RANK") == "1":
            fail(kind, path)
        return value * float("nan") if kind == "nan" and num_updates == FIRST else value

    return replace(plain.job(), loss=loss)
