"""The search for the largest batch, against machines whose laws are planted."""

import random

import pytest

from legroom import api
from legroom.errors import DoesNotFit
from legroom.job import Settings
from legroom.questions.memory.records import StepPeaks
from legroom.testing import FakeMachine

MIB = 2**20


def ask(machine, tmp_path, budget, **more):
    run = api.Run(out=tmp_path, engine=machine, **more.pop("run", {}))
    return api.memory("digits", device="cpu", memory=budget, run=run, **more)


@pytest.mark.parametrize("seed", range(40))
def test_the_batch_found_fits_and_is_within_ten_percent_of_the_largest(tmp_path, seed):
    rng = random.Random(seed)
    machine = FakeMachine(
        bytes_per_sample=10 ** rng.uniform(3, 8),
        fixed_bytes=rng.uniform(150, 900) * MIB,
        update_bytes=rng.choice([0, 0, 950 * MIB]),
        proof_factor=rng.uniform(0.97, 1.12),
        noise_bytes=rng.uniform(0, 2) * MIB,
        seed=seed,
    )
    budget = int((1000 + 10 ** rng.uniform(1.5, 4)) * MIB)
    best = machine.memory.largest_batch(budget)
    best = min(best, 2**20)
    if best < 2:
        pytest.skip("this law holds fewer than two samples")
    answer = ask(machine, tmp_path, budget)
    assert answer.verified
    assert machine.memory.peak_bytes(answer.max_batch_size, proof=True) <= budget
    assert answer.max_batch_size >= min(best - 1, 0.9 * best)
    assert answer.num_ooms == 0


def test_the_law_found_is_the_law_planted(tmp_path):
    answer = ask(FakeMachine(bytes_per_sample=3e6, fixed_bytes=200e6), tmp_path, 2**32)
    assert answer.bytes_per_sample == pytest.approx(3e6, rel=1e-3)
    assert answer.fixed_bytes == pytest.approx(200e6, rel=1e-2)


def test_evaluation_has_its_own_larger_batch(tmp_path):
    machine = FakeMachine(bytes_per_sample=3e6, fixed_bytes=200e6, evaluation_share=0.25)
    answer = ask(machine, tmp_path, 2**32)
    assert answer.eval_batch_size == pytest.approx(4 * answer.max_batch_size, rel=0.15)


def test_no_request_is_made_above_the_budget_while_climbing(tmp_path):
    machine = FakeMachine(bytes_per_sample=5e6, fixed_bytes=200e6)
    ask(machine, tmp_path, 2**30)
    climbed = [request for request in machine.asked if isinstance(request, StepPeaks) and not request.proof]
    assert climbed
    assert all(machine.memory.peak_bytes(request.batch_size) <= 2**30 for request in climbed)


def test_a_model_larger_than_the_budget_is_an_answer_with_its_size(tmp_path):
    with pytest.raises(DoesNotFit, match=r"smallest batch needs 9\d\d\.\d MiB; the budget is 512\.0 MiB"):
        ask(FakeMachine(fixed_bytes=1e9), tmp_path, 512 * MIB)


def test_one_sample_is_tried_where_two_do_not_fit(tmp_path):
    machine = FakeMachine(bytes_per_sample=300 * MIB, fixed_bytes=400 * MIB)
    assert ask(machine, tmp_path, 800 * MIB).max_batch_size == 1


def test_out_of_memory_on_the_way_is_counted_and_survived(tmp_path):
    machine = FakeMachine(bytes_per_sample=3e6, fixed_bytes=200e6, limit_bytes=3e9)
    answer = ask(machine, tmp_path, 2**33)
    assert machine.memory.peak_bytes(answer.max_batch_size) <= 3e9
    assert answer.num_ooms > 0


def test_without_a_budget_the_data_set_is_the_ceiling(tmp_path):
    machine = FakeMachine(bytes_per_sample=1e4, fixed_bytes=200e6, num_samples=1437)
    answer = ask(machine, tmp_path, None)
    assert answer.max_batch_size == 1437
    assert "All 1,437 samples" in answer.notes[0]


def test_a_loader_that_runs_out_bounds_the_answer(tmp_path):
    machine = FakeMachine(bytes_per_sample=1e5, fixed_bytes=200e6, largest_loader_batch=100)
    assert ask(machine, tmp_path, 2**30).max_batch_size == 100


def test_uneven_samples_give_a_typical_answer_beside_the_worst(tmp_path):
    answer = ask(FakeMachine(bytes_per_sample=3e6, fixed_bytes=200e6, typical_share=0.5), tmp_path, 2**32)
    assert answer.typical_batch_size == pytest.approx(2 * answer.max_batch_size, rel=0.1)


def test_a_second_run_with_resume_asks_nothing_again(tmp_path):
    first, second = FakeMachine(), FakeMachine()
    answer = ask(first, tmp_path, 2**32)
    again = ask(second, tmp_path, 2**32, run={"resume": True})
    assert second.asked == []
    assert (again.max_batch_size, again.range) == (answer.max_batch_size, answer.range)


def test_every_worker_started_is_closed(tmp_path):
    machine = FakeMachine()
    ask(machine, tmp_path, 2**32)
    assert machine.num_closed >= machine.num_started > 1


def test_a_micro_batch_leaves_room_for_gradients_held_between_passes(tmp_path):
    machine = FakeMachine(bytes_per_sample=3e6, fixed_bytes=200e6, gradient_bytes=300e6)
    answer = ask(machine, tmp_path, 2**30, effective_batch=1000)
    assert machine.memory.peak_bytes(answer.micro_batch_size) + 300e6 <= 2**30
    assert answer.micro_batch_size * answer.accumulation_steps >= 1000
    assert answer.accumulation_steps <= 8


def test_a_batch_that_fits_needs_one_pass(tmp_path):
    answer = ask(FakeMachine(bytes_per_sample=3e6, fixed_bytes=200e6), tmp_path, 2**30, effective_batch=64)
    assert (answer.micro_batch_size, answer.accumulation_steps) == (64, 1)


def test_the_jobs_own_precision_is_the_default(tmp_path):
    machine = FakeMachine(baseline=Settings(precision="bf16"))
    assert ask(machine, tmp_path / "own", 2**32).settings["precision"] == "bf16"
    assert ask(machine, tmp_path / "asked", 2**32, precision="fp32").settings["precision"] == "fp32"
    assert {request.precision for request in machine.asked if isinstance(request, StepPeaks)} == {"bf16", "fp32"}


def test_micro_batch_and_accumulation_make_the_batch_asked_for(tmp_path):
    answer = ask(FakeMachine(bytes_per_sample=3e7, fixed_bytes=200e6), tmp_path, 2**30, effective_batch=128)
    micro, steps = answer.micro_batch_size, answer.accumulation_steps
    assert micro * (steps - 1) < 128 <= micro * steps
    assert answer.micro_batch_size <= answer.max_batch_size
