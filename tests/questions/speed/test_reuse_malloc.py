"""Memory that steps on a CPU free and fetch anew, in real processes."""

import platform
from pathlib import Path

import pytest

from legroom.engines.local import LocalEngine
from legroom.environments import REUSE_MALLOC
from legroom.job_address import address_of
from legroom.questions.speed.records import TimeSteps

ZOO = Path(__file__).parents[3] / "benchmarks" / "small_zoo.py"


def system_share(**more):
    request = TimeSteps(device="cpu", batch_sizes=(1024,), seconds=0.5, min_rounds=1, **more)
    address = address_of(f"{ZOO}:job", {"model": "separable", "threads": "1"})
    child = LocalEngine().start(address, request.environment, alone=request.alone)
    try:
        return child.ask(request).points[0].system_share
    finally:
        child.close()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the variables are glibc's")
def test_a_process_that_reuses_its_memory_hardly_needs_the_system(monkeypatch):
    for name in REUSE_MALLOC:
        monkeypatch.delenv(name, raising=False)
    plain, reused = system_share(), system_share(keeps_memory=True)
    assert 0 <= reused < plain / 2 < 0.5
