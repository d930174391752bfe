"""The search on a GPU, against cards whose laws are planted."""

import random

import pytest

from legroom import api
from legroom.errors import DoesNotFit, JobRaised, UsageError
from legroom.questions.memory.records import StepPeaks, TraceMemory
from legroom.testing import FakeMachine, plant_gpu, plant_host
from legroom.training.records import Train

GIB = 2**30
WITH_CARD = plant_host(gpus=(plant_gpu(),))


def ask(machine, tmp_path, memory, host=WITH_CARD, **more):
    run = api.Run(out=tmp_path, engine=machine, host=host)
    return api.memory("digits", device="cuda", memory=memory, run=run, **more)


def truth(machine, cap):
    return machine.memory.largest_batch(cap - machine.memory.reserve_bytes)


@pytest.mark.parametrize("seed", range(40))
def test_the_batch_found_is_within_two_percent_in_three_sizes_without_running_out(tmp_path, seed):
    rng = random.Random(seed)
    machine = FakeMachine(
        bytes_per_sample=10 ** rng.uniform(5.5, 8.3),
        fixed_bytes=10 ** rng.uniform(8, 9.2),
        update_bytes=rng.choice([0, 3e9]),
        noise_bytes=rng.uniform(0, 4) * 2**20,
        reserve_bytes=rng.uniform(0, 60) * 2**20,
        seed=seed,
    )
    cap = rng.choice([8, 16, 40]) * GIB
    answer = ask(machine, tmp_path, cap)
    best = truth(machine, cap)
    assert answer.max_batch_size <= best <= 1.02 * answer.max_batch_size + 1
    assert answer.num_ooms == 0
    assert len({r.batch_size for r in machine.asked if isinstance(r, StepPeaks) and not r.proof}) <= 3


@pytest.mark.parametrize("factor", [1.01, 1.03, 1.08])
def test_a_card_that_takes_more_near_its_limit_costs_few_proofs(tmp_path, factor):
    machine = FakeMachine(bytes_per_sample=80e6, fixed_bytes=4e8, proof_factor=factor)
    answer = ask(machine, tmp_path, 16 * GIB)
    best = truth(machine, 16 * GIB)
    assert 0.94 * best <= answer.max_batch_size <= best


@pytest.mark.parametrize("retries_from", [60, 110, 150, 190, 200, 207])
def test_a_batch_that_runs_only_by_retries_does_not_count_as_fitting(tmp_path, retries_from):
    machine = FakeMachine(bytes_per_sample=80e6, fixed_bytes=4e8, retries_from=retries_from)
    answer = ask(machine, tmp_path, 16 * GIB)
    assert 0.98 * retries_from - 1 <= answer.max_batch_size < retries_from
    assert answer.num_ooms == 0


def test_where_growing_segments_leave_gaps_the_default_allocator_is_tried(tmp_path):
    machine = FakeMachine(bytes_per_sample=80e6, fixed_bytes=4e8, retries_from=170, fixed_most=185)
    answer = ask(machine, tmp_path, 16 * GIB)
    assert 0.99 * 185 <= answer.max_batch_size <= 185
    assert answer.num_ooms == 0
    assert len({r.batch_size for r in machine.asked if isinstance(r, StepPeaks) and not r.proof}) <= 5
    assert any("Leave PYTORCH_CUDA_ALLOC_CONF unset" in note for note in answer.notes)


@pytest.mark.parametrize(("fixed_most", "allocator"), [(185, "default"), (195, "default"), (160, "expandable")])
def test_where_much_is_held_in_gaps_one_process_closes_in_with_both_allocators_before_the_first_proof(
    tmp_path, fixed_most, allocator
):
    machine = FakeMachine(
        bytes_per_sample=80e6, fixed_bytes=4e8, reserve_bytes=2e9, retries_from=166, fixed_most=fixed_most
    )
    answer = ask(machine, tmp_path, 16 * GIB)
    asked = [request for request in machine.asked if isinstance(request, StepPeaks)]
    assert [request.proof for request in asked] == [False] * (len(asked) - 1) + [True]
    assert asked[-1].allocator == allocator
    assert 0.99 * max(165, fixed_most) - 1 <= answer.max_batch_size <= max(165, fixed_most)
    assert machine.num_started == 2
    assert answer.num_ooms == 0


def test_on_many_cores_the_processes_of_proofs_are_started_early(tmp_path):
    host = plant_host(num_cores=16, gpus=(plant_gpu(),))
    machine = FakeMachine(bytes_per_sample=80e6, fixed_bytes=4e8, reserve_bytes=2e9, retries_from=166, fixed_most=185)
    assert ask(machine, tmp_path, 16 * GIB, host).allocator == "default"
    assert machine.num_started == machine.num_closed == 3  # one that tries, and one for a proof by either allocator


def test_passes_are_proved_with_the_allocator_that_holds_the_most(tmp_path):
    machine = FakeMachine(bytes_per_sample=80e6, fixed_bytes=4e8, reserve_bytes=2e9, retries_from=150, fixed_most=185)
    answer = ask(machine, tmp_path, 16 * GIB, effective_batch=370)
    assert (answer.allocator, answer.accumulation_steps) == ("default", 3)
    passes = [r.allocator for r in machine.asked if isinstance(r, StepPeaks) and r.accumulation_steps > 1]
    assert set(passes) == {"default"}


def test_amid_gaps_no_batch_is_tried_that_batch_norm_refuses(tmp_path):
    class Normed(FakeMachine):
        def answer(self, request):
            if getattr(request, "batch_size", 2) < 2:
                raise JobRaised("Expected more than 1 value per channel when training")
            return super().answer(request)

    machine = Normed(bytes_per_sample=6e9, fixed_bytes=1e8, reserve_bytes=1e9)
    assert ask(machine, tmp_path, 16 * GIB).max_batch_size == 2


def test_amid_gaps_the_data_set_bounds_the_batch(tmp_path):
    machine = FakeMachine(bytes_per_sample=4e6, fixed_bytes=4e7, reserve_bytes=2e7, fixed_most=20, num_samples=46)
    answer = api.plan("digits", device="cuda", memory=2**28, run=api.Run(out=tmp_path, engine=machine, host=WITH_CARD))
    assert next(item.value for item in answer.recommendations if item.name == "max_batch_size") <= 46


@pytest.mark.parametrize("bytes_per_sample", [1e9, 1.4e9, 2e9, 2.1e9])
def test_samples_of_which_few_fit_are_found_without_running_out(tmp_path, bytes_per_sample):
    machine = FakeMachine(bytes_per_sample=bytes_per_sample, fixed_bytes=1e8)
    answer = ask(machine, tmp_path, 16 * GIB)
    assert answer.max_batch_size == truth(machine, 16 * GIB)
    assert answer.num_ooms == 0


def test_a_plan_carries_the_allocator_to_training_unless_another_is_named(tmp_path):
    machine = FakeMachine(bytes_per_sample=80e6, fixed_bytes=4e8, retries_from=170, fixed_most=185)
    run = api.Run(out=tmp_path, engine=machine, host=WITH_CARD)
    answer = api.plan("digits", device="cuda", memory=16 * GIB, run=run)
    path = answer.plan_path
    assert next(item.value for item in answer.recommendations if item.name == "allocator") == "default"
    machine.asked.clear()
    for more in ({"plan": path}, {"plan": path, "allocator": "expandable"}, {}):
        api.train("digits", device="cuda", num_steps=100, run=run, **more)
    trained = [request.allocator for request in machine.asked if isinstance(request, Train)]
    assert trained == ["default", "expandable", None]


def test_a_plan_on_a_card_takes_the_answer_to_memory_with_its_allocator(tmp_path):
    machine = FakeMachine(bytes_per_sample=400e6, fixed_bytes=4e8, retries_from=170, fixed_most=185)
    run = api.Run(out=tmp_path, engine=machine, host=WITH_CARD)
    found = ask(machine, tmp_path, None)
    num_asked = sum(isinstance(request, StepPeaks) for request in machine.asked)
    answer = api.plan("digits", device="cuda", run=run)
    values = {item.name: item.value for item in answer.recommendations}
    assert (values["max_batch_size"], values["allocator"]) == (found.max_batch_size, found.allocator)
    assert sum(isinstance(request, StepPeaks) for request in machine.asked) == num_asked


@pytest.mark.parametrize("fixed_most", [120, 20])
def test_the_default_allocator_is_not_recommended_for_less(tmp_path, fixed_most):
    machine = FakeMachine(bytes_per_sample=80e6, fixed_bytes=4e8, retries_from=170, fixed_most=fixed_most)
    answer = ask(machine, tmp_path, 16 * GIB)
    assert 0.98 * 170 - 1 <= answer.max_batch_size < 170
    assert any("expandable_segments:True" in note for note in answer.notes)
    assert all(r.batch_size >= 1 for r in machine.asked if isinstance(r, StepPeaks))


def test_sizes_are_closed_in_on_with_a_model_built_anew(tmp_path):
    machine = FakeMachine(bytes_per_sample=80e6, fixed_bytes=4e8, retries_from=170)
    ask(machine, tmp_path, 16 * GIB)
    tried = [r for r in machine.asked if isinstance(r, StepPeaks) and not r.proof][3:]
    assert tried
    assert all(request.anew for request in tried)


def test_without_a_cap_all_that_is_free_is_the_budget(tmp_path):
    machine = FakeMachine(bytes_per_sample=80e6, fixed_bytes=4e8, limit_bytes=20e9)
    assert ask(machine, tmp_path, None).budget_bytes == 20e9


def test_a_cap_above_the_card_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"200\.0 GiB is more than Planted has free"):
        ask(FakeMachine(), tmp_path, 200 * GIB)


def test_a_model_that_does_not_fit_comes_with_remedies(tmp_path):
    with pytest.raises(DoesNotFit, match="sharding") as caught:
        ask(FakeMachine(fixed_bytes=20e9, bytes_per_sample=1e9), tmp_path, 16 * GIB)
    facts = caught.value.facts
    assert facts["needed_bytes"] == 21e9
    assert {remedy["fits"] for remedy in facts["remedies"]} == {True, False}


def test_more_devices_leave_room_for_gradient_buckets(tmp_path):
    alone = ask(FakeMachine(bytes_per_sample=1e6), tmp_path / "a", 8 * GIB)
    shared = ask(FakeMachine(bytes_per_sample=1e6), tmp_path / "b", 8 * GIB, num_devices=4)
    assert alone.budget_bytes - shared.budget_bytes == 4 * 1000


def test_where_the_card_is_not_here_the_answer_is_an_estimate(tmp_path):
    machine = FakeMachine(bytes_per_sample=80e6, fixed_bytes=4e8)
    answer = ask(machine, tmp_path, 16 * GIB, plant_host())
    assert (answer.estimate, answer.verified) == (True, False)
    assert answer.max_batch_size == truth(machine, 16 * GIB)
    assert answer.range[0] < answer.max_batch_size < answer.range[1]


def test_an_estimate_of_several_passes_counts_the_gradients_held_between_them(tmp_path):
    def split(name, gradient_bytes):
        machine = FakeMachine(bytes_per_sample=1e8, fixed_bytes=2e9, gradient_bytes=gradient_bytes)
        run = api.Run(out=tmp_path / name, engine=machine, host=plant_host())
        answer = api.memory("digits", card="t4-16gb", effective_batch=4096, run=run)
        traced = [request for request in machine.asked if isinstance(request, TraceMemory)]
        assert {request.capability for request in traced} == {7}, "a T4 was traced as another card"
        return answer.micro_batch_size

    assert split("held", 8e9) <= split("light", 0.0) - 60
