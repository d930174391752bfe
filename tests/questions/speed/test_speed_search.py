"""`legroom speed` against machines whose laws are planted."""

import random
from dataclasses import replace

import pytest

from legroom import api
from legroom.errors import NothingMeasured, OutOfMemory, UsageError
from legroom.job import Settings
from legroom.laws.compute import knee_of
from legroom.laws.intervals import DRIFT, rerun_mean
from legroom.questions.speed.batch_sizes import grid
from legroom.questions.speed.records import TimeSteps
from legroom.questions.speed.search import num_runs
from legroom.session import advise_again
from legroom.testing import FakeMachine, FakeSteps, plant_host
from legroom.testing.machine import START_SECONDS


def ask(tmp_path, steps, *, machine=None, host=None, **more):
    machine = machine or FakeMachine(steps=steps)
    run = api.Run(out=tmp_path, engine=machine, host=host or plant_host(), clock=machine.clock)
    return api.speed("digits", device="cpu", run=run, **more)


def line(size):
    return 0.01 + 0.0002 * size


@pytest.mark.parametrize("seed", range(20))
def test_the_knee_is_within_one_grid_step_of_the_planted_one(tmp_path, seed):
    rng = random.Random(seed)
    floor, each = 10 ** rng.uniform(-3, -2), 10 ** rng.uniform(-5, -4)

    def seconds(size):
        return max(floor, 0.3 * floor + each * size)

    answer = ask(tmp_path, FakeSteps(seconds=seconds, noise=0.005, seed=seed))
    sizes = grid(1, answer.largest_batch_size)
    planted = knee_of(lambda size: size / seconds(size), sizes, 0.9)
    assert abs(sizes.index(answer.knee_batch_size) - sizes.index(planted)) <= 1  # and no 504 beside 512
    assert answer.range[0] <= answer.knee_batch_size <= answer.range[1]


@pytest.mark.parametrize("seed", range(5))
def test_a_quick_answer_starts_one_process_and_finds_nearly_the_same_knee(tmp_path, seed):
    each = 10 ** random.Random(seed).uniform(-5, -4)
    steps = FakeSteps(seconds=lambda size: 0.005 + each * size, noise=0.02, seed=seed)
    machine = FakeMachine(steps=steps)
    quick, whole = ask(tmp_path / "q", None, machine=machine, quick=True), ask(tmp_path / "w", steps)
    assert machine.num_started == 1
    assert not any(isinstance(request, TimeSteps) and (request.run or request.close) for request in machine.asked)
    sizes = grid(1, whole.largest_batch_size)
    assert (
        abs(sizes.index(quick.knee_batch_size) - sizes.index(whole.knee_batch_size)) <= 4
    )  # looks are in doubt: up to two octaves
    assert 32 in [point["batch_size"] for point in quick.points]
    assert any("looked at once" in what for what in quick.not_measured)


@pytest.mark.parametrize("own", [32, 50, 3])
def test_a_quick_answer_looks_at_no_size_after_a_larger_one(tmp_path, own):
    """On a CPU a size is faster after a larger one, and holds its heap."""
    steps = FakeSteps(seconds=line, after_larger=0.6)
    machine = FakeMachine(steps=steps, baseline=Settings(batch_size=own))
    answer = ask(tmp_path, None, machine=machine, quick=True)
    sizes = [request.batch_sizes for request in machine.asked if isinstance(request, TimeSteps)]
    assert sizes == sorted(sizes)
    assert {own, 64, 128, 256} <= {size for (size,) in sizes}
    assert all(point["median_seconds"] == pytest.approx(line(point["batch_size"])) for point in answer.points)
    assert advise_again(tmp_path, "speed") == answer


def runs_of(machine):
    return [request for request in machine.asked if isinstance(request, TimeSteps) and request.run and request.is_plain]


def test_every_size_is_timed_in_each_of_several_fresh_processes(tmp_path):
    machine = FakeMachine(steps=FakeSteps(seconds=line))
    answer = ask(tmp_path, None, machine=machine)
    runs = runs_of(machine)
    assert [request.run for request in runs] == [1, 2, 3]  # they agree, so no more are needed
    assert all(request.fresh for request in runs)
    assert {request.batch_sizes for request in runs} == {tuple(point["batch_size"] for point in answer.points)}
    assert sum(point["in_law"] for point in answer.points) == 4
    assert answer.law["worst_error"] < 0.03


def test_where_processes_differ_more_of_them_time_what_decides_the_knee_in_no_more_time_than_all_sizes_take(tmp_path):
    machine = FakeMachine(steps=FakeSteps(seconds=line, process_noise=0.15, noise=0.1, seed=3))
    answer = ask(tmp_path, None, machine=machine)
    runs = runs_of(machine)
    every, chosen = set(runs[0].batch_sizes), [set(request.batch_sizes) for request in runs[3:]]
    assert [set(request.batch_sizes) for request in runs[:3]] == [every] * 3
    assert chosen
    assert all(sizes < every for sizes in chosen)
    assert answer.knee_batch_size in chosen[-1]
    counted = {point["batch_size"]: point["num_rounds"] for point in answer.points}
    assert counted[1] == 3 < counted[answer.knee_batch_size]
    assert [request.run for request in runs] == list(range(1, len(runs) + 1))
    spent = sum(START_SECONDS + min(request.seconds, 0.5 * len(request.batch_sizes)) for request in runs)
    assert spent <= num_runs(15) * (START_SECONDS + runs[0].seconds)


def test_a_resumed_search_asks_for_no_more_processes(tmp_path):
    steps = FakeSteps(seconds=line, process_noise=0.15, noise=0.1, seed=3)
    first, machine = ask(tmp_path, steps), FakeMachine(steps=steps)
    run = api.Run(out=tmp_path, engine=machine, host=plant_host(), clock=machine.clock, resume=True)
    assert api.speed("digits", device="cpu", run=run).points == first.points
    assert machine.asked == []


def test_sizes_beside_powers_of_two_are_timed_and_spoken_of(tmp_path):
    slow_when_odd = FakeSteps(seconds=lambda size: line(size) * (1.3 if size % 8 else 1.0))
    answer = ask(tmp_path, slow_when_odd)
    note = next(note for note in answer.notes if "power of two" in note)
    assert "choose the faster kind" in note
    assert "any size will do" in next(n for n in ask(tmp_path / "b", FakeSteps()).notes if "power of two" in n)


def test_memory_that_is_fetched_anew_is_told_with_what_keeping_it_gains(tmp_path):
    def quick(size):
        return line(size) / 10

    fetching = FakeSteps(seconds=quick, fetching_seconds=lambda size: 0.00003 * max(0, size - 512))
    answer = ask(tmp_path, fetching)
    largest = answer.largest_batch_size
    gain = answer.points[-1]["median_seconds"] / quick(largest)
    note = next(note for note in answer.notes if "fetched anew" in note)
    assert f"{gain:.1f} times the samples/s at {largest:,}" in note
    assert "MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=1099511627776 gives" in note
    assert {point["batch_size"]: point["median_seconds"] for point in answer.kept_memory}[largest] == quick(largest)


def test_sizes_do_not_disturb_each_other(tmp_path):
    answer = ask(tmp_path, FakeSteps(seconds=line, after_larger=0.6))
    for point in answer.points:
        assert point["median_seconds"] == pytest.approx(line(point["batch_size"]))


@pytest.mark.parametrize("seed", range(30))
def test_the_knee_never_falls_below_its_share_by_the_timed_sizes(tmp_path, seed):
    rng = random.Random(seed)
    bumps = [10 ** rng.uniform(-0.4, 0.4) for _ in range(20)]

    def bumpy(size):
        return line(size) * bumps[size.bit_length()]

    answer = ask(tmp_path, FakeSteps(seconds=bumpy, noise=0.1, process_noise=0.1, seed=seed))
    rates = {point["batch_size"]: point["samples_per_second"] for point in answer.points}
    assert rates[answer.knee_batch_size] >= 0.9 * max(rates.values())
    assert answer.range[0] <= answer.knee_batch_size <= answer.range[1]


def test_a_law_that_misses_badly_is_refused_and_not_drawn(tmp_path):
    answer = ask(tmp_path, FakeSteps(seconds=lambda size: line(size) * (3.0 if size in (64, 256) else 1.0)))
    assert answer.law["refused"]
    assert not answer.predictions
    assert all(point["predicted_seconds"] is None for point in answer.points)
    assert any(note.startswith("No law is told") for note in answer.notes)
    assert not ask(tmp_path / "even", FakeSteps(seconds=line)).law["refused"]


def test_intervals_hold_what_reruns_give(tmp_path):
    held = []
    for seed in range(12):
        steps = FakeSteps(seconds=line, noise=0.03, process_noise=0.1, seed=seed)
        first, second = (ask(tmp_path / f"{seed}{word}", steps) for word in "ab")
        again = {point["batch_size"]: point["median_seconds"] for point in second.points}
        pairs = [
            (point["interval"], again[point["batch_size"]]) for point in first.points if point["batch_size"] in again
        ]
        assert all(low > 0 for (low, _), _ in pairs)
        held.append(sum(low <= seconds <= high for (low, high), seconds in pairs) / len(pairs))
    assert 0.8 <= sum(held) / len(held) <= 0.98  # the sizes of one run share its processes, so this is rough


def test_intervals_hold_reruns_of_minutes_that_differ():
    held, rng = [], random.Random(0)
    for _ in range(400):
        means = []
        for _ in range(2):
            minutes = rng.lognormvariate(0, DRIFT)
            means.append(rerun_mean([minutes * rng.lognormvariate(0, 0.05) for _ in range(5)]))
        (_, (low, high)), (again, _) = means
        held.append(low <= again <= high)
    assert 0.86 <= sum(held) / len(held) <= 0.95


@pytest.mark.parametrize(("variable", "value"), [("OMP_WAIT_POLICY", "passive"), ("OMP_NUM_THREADS", "3")])
def test_a_setting_that_pays_is_recommended_with_its_gain(tmp_path, monkeypatch, variable, value):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    answer = ask(tmp_path, FakeSteps(seconds=line, setting_factors={variable: 0.5}), host=plant_host(num_cores=6))
    found = next(item for item in answer.recommendations if item.name == "environment")
    assert found.value == f"{variable}={value}"
    assert found.because.startswith("2.00 times the samples/s")
    assert any(f"{variable}={value} gives" in note for note in answer.notes)


def test_a_setting_that_gains_at_one_size_and_costs_at_another_is_told_with_both(tmp_path):
    class GainsWhereLarge(FakeSteps):
        def _factor(self, size, request):
            return super()._factor(size, request) * ((0.5 if size > 512 else 1.5) if request.passive_threads else 1.0)

    answer = ask(tmp_path, GainsWhereLarge(seconds=lambda size: line(size) / 10))
    note = next(note for note in answer.notes if "OMP_WAIT_POLICY=passive gives" in note)
    knee, largest = answer.knee_batch_size, answer.largest_batch_size
    assert note.endswith(f"gives 2.0 times the samples/s at {largest:,}, but 0.7 times at {knee:,}")


@pytest.mark.parametrize(("own", "tried"), [("4", {2}), ("12", {3}), ("2,4", {1}), ("1", set())])
def test_fewer_threads_are_fewer_than_the_users_own(tmp_path, monkeypatch, own, tried):
    monkeypatch.setenv("OMP_NUM_THREADS", own)
    machine = FakeMachine(steps=FakeSteps(seconds=line))
    ask(tmp_path, None, machine=machine, host=plant_host(num_cores=6))
    numbers = {request.num_threads for request in machine.asked if isinstance(request, TimeSteps)}
    assert numbers - {None} == tried


def test_a_setting_that_costs_is_tried_once_and_not_recommended(tmp_path):
    machine = FakeMachine(
        steps=FakeSteps(seconds=line, setting_factors={"OMP_WAIT_POLICY": 1.4, "OMP_NUM_THREADS": 1.4})
    )
    answer = ask(tmp_path, None, machine=machine)
    tried = [request for request in machine.asked if isinstance(request, TimeSteps) and not request.is_plain]
    assert {request.run for request in tried} == {1}
    assert [item.name for item in answer.recommendations] == ["knee_batch_size"]
    assert not any("gives" in note and "OMP" in note for note in answer.notes)


def test_a_setting_that_gains_in_one_process_by_chance_is_not_told(tmp_path):
    class OnceFaster(FakeSteps):
        def time(self, request):
            lucky = request.passive_threads and request.run == 1
            self.setting_factors = {"OMP_WAIT_POLICY": 0.5 if lucky else 1.0}
            return super().time(request)

    answer = ask(tmp_path, OnceFaster(seconds=line))
    assert [item.name for item in answer.recommendations] == ["knee_batch_size"]


def test_a_process_that_keeps_too_much_memory_costs_a_note_only(tmp_path):
    class RunsOut(FakeSteps):
        def time(self, request):
            if request.keeps_memory:
                raise OutOfMemory("planted")
            return super().time(request)

    answer = ask(tmp_path, RunsOut(seconds=line, fetching_seconds=line))
    assert answer.knee_batch_size
    assert not answer.kept_memory


def test_where_memory_is_not_fetched_anew_keeping_it_is_not_tried(tmp_path):
    machine = FakeMachine(steps=FakeSteps(seconds=line, fetching_seconds=lambda size: 0.05 * line(size)))
    answer = ask(tmp_path, None, machine=machine)
    assert not any(request.keeps_memory for request in machine.asked if isinstance(request, TimeSteps))
    assert not answer.kept_memory
    assert not any("fetched anew" in note for note in answer.notes)


def test_a_gain_is_not_told_where_the_system_takes_as_much_with_memory_kept(tmp_path):
    class FasterByChance(FakeSteps):
        def time(self, request):
            times = super().time(replace(request, keeps_memory=False))
            return replace(times, points=[self._hurry(point, request) for point in times.points])

        def _hurry(self, point, request):
            return replace(point, median_seconds=point.median_seconds / (2 if request.keeps_memory else 1))

    answer = ask(tmp_path, FasterByChance(seconds=line, fetching_seconds=line))
    assert answer.kept_memory
    assert not any("fetched anew" in note for note in answer.notes)


def test_a_gain_within_the_noise_is_not_told(tmp_path):
    noisy = FakeSteps(seconds=line, fetching_seconds=lambda size: 0.2 * line(size), noise=0.3)
    answer = ask(tmp_path, noisy)
    assert answer.kept_memory
    assert not any("fetched anew" in note for note in answer.notes)


def test_a_share_moves_the_knee(tmp_path):
    loose = ask(tmp_path / "a", FakeSteps(seconds=line), share=0.5)
    strict = ask(tmp_path / "b", FakeSteps(seconds=line), share=0.95)
    assert loose.knee_batch_size < strict.knee_batch_size


def test_the_rule_of_utilisation_takes_the_first_size_that_is_busy_enough(tmp_path):
    steps = FakeSteps(seconds=line, utilisation=lambda size: min(0.98, 0.1 + size / 300))
    answer = ask(tmp_path, steps, rule="utilisation")
    busy = {point["batch_size"]: point["utilisation"] for point in answer.points}
    assert busy[answer.knee_batch_size] >= 0.9 * 0.98
    assert all(value < 0.9 * 0.98 for size, value in busy.items() if size < answer.knee_batch_size)


def test_without_nvml_the_timings_stand_and_a_sentence_says_so(tmp_path):
    answer = ask(tmp_path, FakeSteps(seconds=line))
    assert any("NVML did not answer" in sentence for sentence in answer.not_measured)
    assert all(point["utilisation"] is None for point in answer.points)


def test_without_nvml_the_rule_of_utilisation_is_refused_and_nothing_is_lost(tmp_path):
    machine = FakeMachine(steps=FakeSteps(seconds=line))
    with pytest.raises(NothingMeasured, match="--rule throughput --resume"):
        ask(tmp_path, None, machine=machine, rule="utilisation")
    assert "step_times" in (tmp_path / "logbook.jsonl").read_text()


def test_a_named_size_that_does_not_fit_costs_only_itself(tmp_path):
    steps = FakeSteps(seconds=line, available_bytes=200e6)
    answer = ask(tmp_path, steps, batch_sizes=[16, 64, 128, 4096])
    assert [point["batch_size"] for point in answer.points] == [16, 64, 128]
    assert any("4,096 does not fit" in note for note in answer.notes)


def test_where_no_named_size_fits_nothing_was_measured(tmp_path):
    with pytest.raises(NothingMeasured, match="does not fit"):
        ask(tmp_path, FakeSteps(available_bytes=10), batch_sizes=[64, 128])


def test_growing_sizes_stop_before_memory_runs_out(tmp_path):
    machine = FakeMachine(steps=FakeSteps(seconds=line, available_bytes=100e6, bytes_per_sample=1e5))
    answer = ask(tmp_path, None, machine=machine)
    tried = {size for request in machine.asked if isinstance(request, TimeSteps) for size in request.batch_sizes}
    assert 256 <= answer.largest_batch_size <= 1000
    assert max(tried) <= 1000
    assert "memory" in answer.largest_because


def test_growing_sizes_stop_at_the_data_set(tmp_path):
    answer = ask(tmp_path, None, machine=FakeMachine(num_samples=300, steps=FakeSteps(seconds=line)))
    assert answer.largest_batch_size == 300
    assert answer.largest_because == "the data set has 300 samples"


def test_growing_sizes_stop_where_a_step_takes_too_long(tmp_path):
    answer = ask(tmp_path, FakeSteps(seconds=lambda size: 0.01 * size, available_bytes=1e12), seconds=10)
    assert answer.largest_batch_size * 0.01 <= 0.8
    assert "--seconds allows more" in answer.largest_because


def test_a_timing_above_the_devices_peak_is_refused_with_the_reason(tmp_path):
    # The machine planted does 1 TFLOP/s; without waiting for the device the largest batch seems to do 7.
    def unwaited(size):
        return line(size) if size < 1000 else line(size) / 30

    answer = ask(tmp_path, FakeSteps(seconds=unwaited, flops_per_sample=5e7), batch_sizes=[8, 32, 128, 512, 2048])
    assert [point["batch_size"] for point in answer.points] == [8, 32, 128, 512]
    assert any("2,048 was refused" in note and "TFLOP/s" in note for note in answer.notes)


def test_where_every_timing_is_impossible_there_is_no_answer(tmp_path):
    with pytest.raises(NothingMeasured, match="was refused"):
        ask(tmp_path, FakeSteps(seconds=line, flops_per_sample=1e12))


def test_padding_is_told_with_what_other_batches_would_save(tmp_path):
    answer = ask(tmp_path, None, machine=FakeMachine(typical_share=0.3, steps=FakeSteps(seconds=line)))
    assert any("50% of a random batch" in note and "like length 45%" in note for note in answer.notes)


def test_noise_that_hides_the_knee_is_told(tmp_path):
    answer = ask(tmp_path, FakeSteps(seconds=line, noise=0.3))
    assert any("Timings vary" in note for note in answer.notes)


def test_where_launches_set_the_pace_a_sentence_says_so_with_figures(tmp_path):
    steps = FakeSteps(seconds=lambda size: 0.002 + 0.0002 * size, host_seconds=0.021, host_noise=0.02)
    answer = ask(tmp_path, steps)
    note = next(note for note in answer.notes if "launches set the pace" in note)
    assert "21 ms a step, of which the device needs 2.2 to" in note
    assert answer.law["host_seconds"] == pytest.approx(0.021, rel=0.05)
    assert "host_seconds^16" in answer.law["formula"]
    assert answer.points[0]["device_seconds"] == pytest.approx(0.0022)


@pytest.mark.parametrize("host_seconds", [0.0, 1e-4])
def test_where_they_do_not_or_nobody_knows_nothing_is_said_of_launches(tmp_path, host_seconds):
    answer = ask(tmp_path, FakeSteps(seconds=line, host_seconds=host_seconds))
    assert not any("launches" in note for note in answer.notes)


def test_resume_measures_nothing_again(tmp_path):
    first = ask(tmp_path, FakeSteps(seconds=line))
    machine = FakeMachine(steps=FakeSteps(seconds=lambda size: 1.0))
    run = api.Run(out=tmp_path, engine=machine, host=plant_host(), resume=True)
    again = api.speed("digits", device="cpu", run=run)
    assert machine.asked == []
    assert again.points == first.points
    assert again.seconds == 0


@pytest.mark.parametrize(
    ("words", "match"),
    [
        ({"rule": "guess"}, "Known: throughput, utilisation"),
        ({"share": 0.0}, "--share is 0"),
        ({"seconds": 0.1}, "--seconds is 0.1"),
        ({"batch_sizes": [8, 0]}, "--batch-sizes names 0"),
        ({"precision": "fp8"}, "Known: fp32"),
        ({"device": "tpu"}, "There is no device"),
    ],
)
def test_wrong_words_are_refused_before_anything_runs(tmp_path, words, match):
    machine = FakeMachine()
    with pytest.raises(UsageError, match=match):
        api.speed("digits", **({"device": "cpu"} | words), run=api.Run(out=tmp_path, engine=machine))
    assert machine.asked == []


def test_who_allows_few_seconds_gets_the_timings_alone(tmp_path):
    machine = FakeMachine(steps=FakeSteps(seconds=line, setting_factors={"OMP_WAIT_POLICY": 0.5}))
    answer = ask(tmp_path, None, machine=machine, seconds=2.0)
    assert not answer.settings_tried
    assert max(request.run for request in machine.asked if isinstance(request, TimeSteps)) == 3
