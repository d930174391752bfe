"""What tests of loading share: a way to ask about planted loaders."""

import pytest

from legroom import api
from legroom.testing import FakeMachine, plant_gpu, plant_host

GIB = 2**30


@pytest.fixture
def ask(tmp_path):
    """Asks about planted loaders on a host with as many cores as they have."""

    def run(loaders, *, available_bytes=64 * GIB, shm_bytes=32 * GIB, machine=None, resume=False, device="cpu", **more):
        gpus = () if device == "cpu" else (plant_gpu(),)
        host = plant_host(num_cores=loaders.num_cores, memory_bytes=available_bytes, shm_bytes=shm_bytes, gpus=gpus)
        run = api.Run(out=tmp_path, engine=machine or FakeMachine(loaders=loaders), resume=resume, host=host)
        return api.loading("digits", device=device, run=run, **more)

    return run
