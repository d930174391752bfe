"""The search for loader settings, against machines whose loaders are planted."""

import random
from dataclasses import replace

import pytest

from legroom.errors import UsageError
from legroom.questions.loading.records import ComparedLoaders, CompareLoaders, LoaderSettings, ReadCold
from legroom.requests import record_from, to_json
from legroom.setting_rules import most_workers
from legroom.testing import FakeLoaders, FakeMachine

GIB = 2**30


def best_throughput(loaders, batch_size):
    """Of all counts that a job may ask for."""
    most = min(256, most_workers(loaders.num_cores))
    return batch_size / min(loaders.batch_seconds(num) for num in range(most + 1))


@pytest.mark.parametrize("seed", range(40))
def test_the_choice_reaches_the_best_within_five_percent_for_few_workers(ask, seed):
    rng = random.Random(seed)
    loaders = FakeLoaders(
        prepare_seconds=10 ** rng.uniform(-4, -0.5),
        wait_seconds=rng.choice([0, 0, 0.05]),
        transfer_seconds=rng.choice([0, 1e-3]),
        step_seconds=10 ** rng.uniform(-3, -1),
        contention=rng.choice([0, 0.02, 0.1]),
        num_cores=rng.choice([2, 16]),
        noise=0.005,
        seed=seed,
    )
    answer = ask(loaders)
    reached = answer.batch_size / loaders.batch_seconds(answer.num_workers)
    assert reached >= 0.95 * best_throughput(loaders, answer.batch_size)
    enough = next(n for n in range(257) if answer.batch_size / loaders.batch_seconds(n) >= 0.98 * reached)
    assert answer.num_workers <= 2 * enough + 2


MANY_CORES = {
    "scales to the cores": {"prepare_seconds": 0.04, "main_seconds": 4e-4},
    "waits in line": {"prepare_seconds": 0.04, "contention": 0.03},
    "hinders others": {"prepare_seconds": 0.04, "contention": 0.02, "coherence": 0.005},
    "hinders others much": {"prepare_seconds": 0.04, "contention": 0.01, "coherence": 0.02},
    "taken by one process": {"prepare_seconds": 0.01, "main_seconds": 1.5e-3},
    "slow storage": {"prepare_seconds": 2e-3, "wait_seconds": 0.1, "step_seconds": 2.5e-3, "main_seconds": 1e-4},
    "slower storage": {"prepare_seconds": 1e-3, "wait_seconds": 0.095, "main_seconds": 5e-4},
    "step": {"prepare_seconds": 0.04, "step_seconds": 0.007},
    "pinned by a thread": {
        "prepare_seconds": 6e-4,
        "transfer_seconds": 3e-3,
        "step_seconds": 2.4e-3,
        "pin_seconds": 1e-3,
    },
    "nothing to prepare": {"prepare_seconds": 5e-5, "main_seconds": 6e-4},
}


def started(machine):
    """Workers started in all: loaders of one comparison stay open for the next."""
    total, kept = 0, set()
    for request in (r for r in machine.asked if isinstance(r, CompareLoaders)):
        total += sum(lane.num_workers for lane in request.lanes if lane not in kept)
        kept = set(request.lanes) if request.keep else set()
    return total


@pytest.mark.parametrize("num_cores", [12, 16])
@pytest.mark.parametrize("name", MANY_CORES)
def test_on_many_cores_the_choice_is_the_best_of_a_sweep_with_fewer_workers_started(ask, name, num_cores):
    swept = [*range(num_cores + 1), num_cores * 3 // 2, 2 * num_cores]
    for seed in range(5):
        loaders = FakeLoaders(**{"step_seconds": 5e-4, **MANY_CORES[name]}, num_cores=num_cores, noise=0.04, seed=seed)
        machine = FakeMachine(loaders=loaders)
        answer = ask(loaders, machine=machine, device="cuda")
        best = min(loaders.batch_seconds(num) for num in swept)
        assert best / loaders.batch_seconds(answer.num_workers) >= 0.97
        assert started(machine) <= max(8 * num_cores, 3 * answer.num_workers)


@pytest.mark.parametrize("name", MANY_CORES)
def test_all_turns_of_a_search_on_two_cores_fit_into_half_a_minute(ask, name):
    machine = FakeMachine(loaders=FakeLoaders(**{"step_seconds": 5e-4, **MANY_CORES[name]}, num_cores=2, noise=0.1))
    ask(machine.loaders, machine=machine)
    ran = [request for request in machine.asked if isinstance(request, CompareLoaders)]
    assert sum(len(request.lanes) * request.num_rounds * request.window_seconds for request in ran) <= 30


def test_counts_that_cannot_be_enough_are_not_run(ask):
    loaders = FakeLoaders(prepare_seconds=0.04, step_seconds=5e-4, num_cores=16)
    machine = FakeMachine(loaders=loaders)
    assert ask(loaders, machine=machine, device="cuda").num_workers == 16
    ran = [r for r in machine.asked if isinstance(r, CompareLoaders) and r.what == "together"]
    assert min(lane.num_workers for r in ran for lane in r.lanes) == 16


def test_a_core_is_left_to_the_process_that_launches_steps(ask):
    loaders = FakeLoaders(prepare_seconds=0.04, step_seconds=0.0025, launch_seconds=0.0025, num_cores=16)
    machine = FakeMachine(loaders=loaders)
    assert ask(loaders, machine=machine, device="cuda").num_workers == 15
    first = next(r for r in machine.asked if isinstance(r, CompareLoaders) and r.what == "together")
    assert 15 in [lane.num_workers for lane in first.lanes]


class SlowMoment(FakeLoaders):
    """While the step ran alone, the host launched it slowly in two turns of three."""

    def compare(self, request):
        result = super().compare(request)
        if request.what != "step":
            return result
        step = result.lanes[0]
        slow = [step.batch_seconds[0], *(1.3 * seconds for seconds in step.batch_seconds[1:])]
        return ComparedLoaders(lanes=[replace(step, batch_seconds=slow, median_seconds=sorted(slow)[1])])


def test_a_slow_moment_of_the_host_does_not_make_fewer_workers_seem_enough(ask):
    # 25 workers feed the slow step, 32 the real one.
    loaders = SlowMoment(prepare_seconds=0.02, wait_seconds=0.3, step_seconds=0.01, num_cores=16)
    answer = ask(loaders, device="cuda")
    assert loaders.batch_seconds(answer.num_workers) <= 1.03 * loaders.batch_seconds(32)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("falls_alone", [True, False])
@pytest.mark.parametrize("edge", [1, 2, 3, 5, 7, 10, 13, 21, 37])
def test_a_cliff_that_no_law_knows_is_found_and_told(ask, edge, falls_alone, device):
    for seed in (edge, edge + 1):
        rng = random.Random(seed)
        loaders = FakeLoaders(
            prepare_seconds=rng.choice([0.005, 0.04]),
            wait_seconds=rng.choice([0, 0.1]),
            step_seconds=5e-4,
            contention=rng.choice([0, 0.01]),
            num_cores=rng.choice([4, 16]),
            edge=edge,
            fallen_share=rng.choice([0.1, 0.3]),
            falls_alone=falls_alone,
            noise=0.02,
            seed=seed,
        )
        answer = ask(loaders, device=device)
        reached = answer.batch_size / loaders.batch_seconds(answer.num_workers)
        assert reached >= 0.95 * best_throughput(loaders, answer.batch_size)
        assert answer.samples_per_second == pytest.approx(reached, rel=0.05)
        more = [point["num_workers"] for point in answer.points if point["num_workers"] > answer.num_workers]
        fallen = min(more, default=0)
        if answer.num_workers > 1 and fallen > edge:
            (told,) = [note for note in answer.notes if "fall off a cliff" in note]
            assert f"{fallen} workers reach" in told
            assert f"of what {answer.num_workers} workers do" in told


@pytest.mark.parametrize("name", MANY_CORES)
def test_a_fall_that_the_law_explains_is_no_cliff_and_costs_no_comparison(ask, name):
    machine = FakeMachine(loaders=FakeLoaders(**{"step_seconds": 5e-4, **MANY_CORES[name]}, noise=0.02))
    answer = ask(machine.loaders, machine=machine, device="cuda")
    assert not any("cliff" in note for note in answer.notes)
    assert len([r for r in machine.asked if isinstance(r, CompareLoaders) and r.what == "together"]) <= 2


def test_no_workers_where_they_cannot_help(ask):
    answer = ask(FakeLoaders(prepare_seconds=1e-5, transfer_seconds=2e-3, step_seconds=1e-2))
    assert (answer.num_workers, answer.persistent_workers) == (0, False)
    assert answer.bound_by == "compute"
    assert answer.is_fed


def test_slow_storage_gets_more_workers_than_there_are_cores(ask):
    loaders = FakeLoaders(prepare_seconds=1e-3, wait_seconds=0.2, step_seconds=0.02, num_cores=2)
    assert ask(loaders).num_workers >= 9


def test_turns_that_differ_by_chance_call_for_no_more_workers(ask):
    # Ten workers fill two cores: beyond them only noise tells counts apart.
    full = {"prepare_seconds": 0.02, "wait_seconds": 0.08, "step_seconds": 0.001, "num_cores": 2}
    doubled = 0
    for seed in range(20):
        machine = FakeMachine(loaders=FakeLoaders(**full, noise=0.15, seed=seed))
        ask(machine.loaders, machine=machine)
        ran = [lane.num_workers for r in machine.asked if isinstance(r, CompareLoaders) for lane in r.lanes]
        doubled += max(ran) > 25
    assert doubled <= 2


def test_a_device_that_cannot_be_fed_is_told(ask):
    answer = ask(FakeLoaders(prepare_seconds=0.4, step_seconds=0.001, num_cores=4))
    assert not answer.is_fed
    assert answer.bound_by == "preparation"
    assert any("No number of workers gives the step all it could take" in note for note in answer.notes)


def test_cold_storage_is_named_with_its_planted_share(ask):
    answer = ask(FakeLoaders(prepare_seconds=0.001, step_seconds=0.01, storage_seconds=0.03))
    assert answer.bound_by == "storage"
    assert answer.shares["storage"] == pytest.approx(0.75, abs=0.02)


def test_more_batches_ahead_are_recommended_only_where_they_gain(ask):
    slow = {"prepare_seconds": 0.1, "step_seconds": 0.001, "num_cores": 4}
    assert ask(FakeLoaders(**slow, ahead_gain=1.2)).prefetch_factor == 4
    assert ask(FakeLoaders(**slow)).prefetch_factor == 2


def test_no_more_workers_are_tried_than_memory_holds(ask):
    loaders = FakeLoaders(prepare_seconds=0.4, step_seconds=0.001, worker_bytes=GIB)
    machine = FakeMachine(loaders=loaders)
    answer = ask(loaders, machine=machine, available_bytes=4 * GIB)
    assert answer.max_workers_by_memory == 3
    ran = [
        lane.num_workers
        for r in machine.asked
        if isinstance(r, CompareLoaders) and r.what == "together"
        for lane in r.lanes
    ]
    assert max(ran) <= 3


def test_no_more_workers_are_tried_than_a_job_may_ask_for(ask):
    machine = FakeMachine(loaders=FakeLoaders(prepare_seconds=1e-4, wait_seconds=0.5, step_seconds=1e-3, num_cores=2))
    answer = ask(machine.loaders, machine=machine)
    ran = [settings.num_workers for r in machine.asked if isinstance(r, CompareLoaders) for settings in r.lanes]
    assert max(ran) == most_workers(2) == 64
    assert answer.num_workers >= 63


def test_a_shm_too_small_is_found_before_a_worker_dies_of_it(ask):
    loaders = FakeLoaders(prepare_seconds=0.4, batch_bytes=40 * 2**20)
    machine = FakeMachine(loaders=loaders)
    answer = ask(loaders, machine=machine, shm_bytes=64 * 2**20)
    assert answer.num_workers == 0
    assert any("/dev/shm" in sentence for sentence in answer.not_measured)
    assert all(lane.num_workers == 0 for r in machine.asked if isinstance(r, CompareLoaders) for lane in r.lanes)


def test_a_shm_that_limits_the_workers_is_told_with_figures_and_a_way(ask):
    loaders = FakeLoaders(prepare_seconds=0.4, step_seconds=0.001, batch_bytes=2**20)
    small = ask(loaders, shm_bytes=16 * 2**20)
    (said,) = [sentence for sentence in small.not_measured if "/dev/shm" in sentence]
    assert small.num_workers <= 5
    assert said.startswith("more than 5 workers: each holds up to 2 batches of 1.0 MiB in /dev/shm, and 16.0 MiB")
    assert "docker run --shm-size" in said
    assert not any("/dev/shm" in sentence for sentence in ask(loaders).not_measured)


def test_workers_that_die_for_want_of_memory_leave_as_many_as_live(ask):
    answer = ask(FakeLoaders(prepare_seconds=0.4, step_seconds=0.001, most_workers=5))
    assert answer.num_workers == 5
    assert any("planted: a worker died" in note for note in answer.notes)


def test_an_unpicklable_data_set_is_answered_without_workers(ask):
    answer = ask(FakeLoaders(picklable=False))
    assert answer.num_workers == 0
    assert any("planted: no pickle" in note for note in answer.notes)


def test_more_devices_need_more_workers_in_all_and_share_the_memory(ask):
    loaders = FakeLoaders(prepare_seconds=0.04, step_seconds=0.01, num_cores=64, worker_bytes=2**28)
    one, four = ask(loaders), ask(loaders, num_devices=4)
    assert (one.num_workers, four.num_workers) == (4, 4)
    assert four.samples_per_second == pytest.approx(4 * one.samples_per_second, rel=0.03)
    assert four.max_workers_by_memory <= one.max_workers_by_memory // 4 + 1


def test_devices_that_share_too_few_cores_are_told_apart_from_one(ask):
    loaders = FakeLoaders(prepare_seconds=0.04, step_seconds=0.01, num_cores=4)
    one, four = ask(loaders), ask(loaders, num_devices=4)
    assert one.num_workers == 4
    assert four.num_workers < 4
    assert four.samples_per_second < 2 * one.samples_per_second


def test_launching_steps_of_several_devices_takes_cores_from_their_loaders(ask):
    loaders = FakeLoaders(prepare_seconds=0.04, step_seconds=0.01, launch_seconds=0.01, num_cores=16)
    answer = ask(loaders, device="cuda", num_devices=8)
    all_cores = 16 * answer.batch_size / (loaders.prepare_seconds + loaders.launch_seconds)
    assert answer.samples_per_second == pytest.approx(all_cores, rel=0.01)


def test_points_hold_the_throughputs_that_the_choice_was_made_from(ask):
    answer = ask(FakeLoaders(prepare_seconds=0.1, step_seconds=0.001, num_cores=4, noise=0.1))
    ours = {"num_workers": answer.num_workers, "prefetch_factor": answer.prefetch_factor, "blas_threads": 1}
    settings = [(point["num_workers"], point["prefetch_factor"], point["blas_threads"]) for point in answer.points]
    assert len(settings) == len(set(settings))
    (chosen,) = [point for point in answer.points if ours.items() <= point.items()]
    assert chosen["samples_per_second"] == pytest.approx(answer.samples_per_second)
    assert chosen["num_repeats"] > 3  # it ran in more than one comparison
    assert chosen["samples_per_second"] >= 0.98 * max(point["samples_per_second"] for point in answer.points)


def test_both_rules_answers_are_kept(ask, tmp_path):
    ours = ask(FakeLoaders(), batch_size=100)
    theirs = ask(FakeLoaders(), rule="thesis", batch_size=100, resume=True)
    assert (ours.rule, theirs.rule) == ("legroom", "thesis")
    assert ours.batch_size == theirs.batch_size
    assert len(list((tmp_path / "answers").glob("loading*.json"))) == 2


def test_the_answer_knows_how_many_samples_an_epoch_has(ask):
    assert ask(FakeLoaders()).num_samples == 10_000


def test_a_resumed_run_measures_nothing_again(ask):
    loaders = FakeLoaders()
    first = ask(loaders)
    machine = FakeMachine(loaders=loaders)
    again = ask(loaders, machine=machine, resume=True)
    assert machine.asked == []
    assert (again.num_workers, again.samples_per_second) == (first.num_workers, first.samples_per_second)


def test_the_answer_holds_the_names_scripts_rely_on(ask):
    names = {"num_workers", "prefetch_factor", "pin_memory", "persistent_workers", "samples_per_second", "bound_by"}
    answer = ask(FakeLoaders()).to_json()
    assert names | {"shares", "max_workers_by_memory", "notes", "not_measured", "seconds"} <= set(answer)


def test_the_chosen_setting_is_the_one_made_cold(ask):
    loaders = FakeLoaders(storage_seconds=0.01)
    machine = FakeMachine(loaders=loaders)
    answer = ask(loaders, machine=machine)
    assert [r.lane.num_workers for r in machine.asked if isinstance(r, ReadCold)] == [answer.num_workers]


class Disturbed(FakeLoaders):
    """Every fourth turn takes four times as long, as where it meets the end of an epoch or another program."""

    def compare(self, request):
        def disturb(one):
            seconds = [each * (4 if place % 4 == 3 else 1) for place, each in enumerate(one.batch_seconds)]
            return replace(one, batch_seconds=seconds)

        return ComparedLoaders(lanes=[disturb(one) for one in super().compare(request).lanes])


def test_the_throughput_told_is_samples_over_seconds_of_all_turns_slow_ones_included(ask):
    machine = FakeMachine(loaders=Disturbed(prepare_seconds=1e-3, step_seconds=0.01, num_cores=2))
    answer = ask(machine.loaders, machine=machine)
    compared = [
        (r.num_rounds, len(r.lanes)) for r in machine.asked if isinstance(r, CompareLoaders) and r.what == "together"
    ]
    num_turns = sum(rounds * lanes for rounds, lanes in compared)
    num_slow = sum(rounds // 4 * lanes for rounds, lanes in compared)
    # All take the same time: the slow ones give a quarter of the samples.
    share = 1 - 0.75 * num_slow / num_turns
    quiet = answer.batch_size / machine.loaders.batch_seconds(answer.num_workers)
    assert 0.8 < share < 0.9
    assert answer.samples_per_second == pytest.approx(share * quiet)


@pytest.mark.parametrize("gain", [1.15, 1.0])
def test_unpinned_memory_is_chosen_made_cold_and_told_where_it_is_faster_and_only_there(ask, gain):
    loaders = FakeLoaders(prepare_seconds=0.1, step_seconds=1e-3, num_cores=4, storage_seconds=0.01, unpinned_gain=gain)
    machine = FakeMachine(loaders=loaders)
    answer = ask(loaders, machine=machine, device="cuda")
    (cold,) = [r.lane for r in machine.asked if isinstance(r, ReadCold)]
    assert (answer.num_workers, answer.prefetch_factor) == (cold.num_workers, cold.prefetch_factor)
    assert answer.pin_memory == cold.pin_memory == (gain == 1.0)
    seconds = loaders.batch_seconds(answer.num_workers) / gain
    assert answer.samples_per_second == pytest.approx(answer.batch_size / seconds)
    assert answer.shares["compute"] == pytest.approx(loaders.step_seconds / (seconds + 0.01), abs=0.001)


@pytest.mark.parametrize("words", [{"batch_size": 0}, {"num_devices": 0}, {"precision": "fp12"}, {"rule": "guess"}])
def test_wrong_words_are_refused(ask, words):
    with pytest.raises(UsageError):
        ask(FakeLoaders(), **words)


def test_a_batch_larger_than_the_data_is_refused(ask):
    with pytest.raises(UsageError, match="more than the 10,000 samples"):
        ask(FakeLoaders(), batch_size=20_000)


def test_throughputs_survive_the_way_through_json(ask):
    request = CompareLoaders(
        device="cpu", batch_size=8, what="load", lanes=(LoaderSettings(num_workers=3, blas_threads=None),)
    )
    assert record_from(to_json(request)) == request
    result = FakeLoaders().compare(request)
    assert isinstance(record_from(to_json(result)), ComparedLoaders)
    assert record_from(to_json(result)) == result
