"""The searches on machines whose memory follows none of the laws we fit: whole blocks, and a workspace all at once."""

import random

import pytest

from legroom import api
from legroom.questions.memory.records import StepPeaks
from legroom.testing import FakeMachine, FakeMemory, plant_gpu, plant_host

MIB = 2**20
SHARES = {"cpu": 0.8, "cuda": 0.9}
"""Of the largest batch that fits, that must be proved: on a host a size that fails costs a fresh process each time."""
KINDS = ("blocks", "workspace", "both")


def planted(seed, kind):
    """A law with steps, and a budget that the steps matter in."""
    chance = random.Random(seed)
    memory = FakeMemory(
        bytes_per_sample=10 ** chance.uniform(5.5, 8), fixed_bytes=chance.uniform(150, 900) * MIB, seed=seed
    )
    budget = int((2000 + 10 ** chance.uniform(3, 4.2)) * MIB)
    if kind != "workspace":
        memory.block_bytes = chance.uniform(8, 256) * MIB
    if kind != "blocks":  # from a fiftieth of what would fit without it, to above that
        first = max(2, int(memory.largest_batch(budget) * chance.uniform(0.02, 1.1)))
        memory.workspace = (first, chance.uniform(0.02, 0.4) * budget)
    return memory, budget


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("device", SHARES)
@pytest.mark.parametrize("seed", range(20))
def test_a_batch_near_the_largest_is_proved_though_memory_grows_in_steps(tmp_path, seed, device, kind):
    memory, budget = planted(seed, kind)
    machine = FakeMachine(memory=memory)
    host = plant_host(memory_bytes=2**40, gpus=(plant_gpu(),))
    answer = api.memory("digits", device=device, memory=budget, run=api.Run(out=tmp_path, engine=machine, host=host))
    assert answer.verified
    assert answer.max_batch_size >= SHARES[device] * memory.largest_batch(budget)
    check_proved(machine, answer, budget)


def check_proved(machine, answer, budget):
    """What is called proved has run in a fresh process, and fits by the planted law."""
    proofs = {request.batch_size for request in machine.asked if isinstance(request, StepPeaks) and request.proof}
    assert answer.max_batch_size in proofs
    assert machine.memory.peak_bytes(answer.max_batch_size, proof=True) <= budget
    evaluated = {request.eval_batch_size for request in machine.asked if isinstance(request, StepPeaks)}
    assert answer.eval_batch_size in evaluated | proofs


@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_called_proved_on_a_machine_that_has_less_than_it_says(tmp_path, seed):
    """The budget is four times what there is: sizes die without telling their peak."""
    memory, budget = planted(seed, "both")
    memory.limit_bytes = budget / 4 + memory.fixed_bytes
    machine = FakeMachine(memory=memory)
    run = api.Run(out=tmp_path, engine=machine, host=plant_host(memory_bytes=2**40))
    answer = api.memory("digits", device="cpu", memory=budget, run=run)
    assert answer.num_ooms > 0
    check_proved(machine, answer, memory.limit_bytes)
