"""A planted clock gives planted rates; a real device gives whole numbers, ordered as hardware must order them."""

import json
import os
import types
from itertools import count

import pytest
import torch

from legroom.child import device_peak as device_peak
from legroom.child.device_peak import Stopwatch, device_speeds
from legroom.errors import UsageError

CPU_RATES = ("matmul_fp32_flops_per_second", "matmul_bf16_flops_per_second", "copy_bytes_per_second")


def ticking(*steps: float):
    """A clock whose intervals are the given ones; the last goes on for ever."""
    times = iter(steps)
    now = [0.0]

    def clock() -> float:
        now[0] += next(times, steps[-1])
        return now[0]

    return clock


@pytest.fixture
def small_copies(monkeypatch):
    monkeypatch.setattr(device_peak, "MIN_COPY_BYTES", 2**20)
    monkeypatch.setattr(device_peak, "MAX_COPY_BYTES", {"cpu": 2**20})


def test_planted_clock_gives_planted_rates(small_copies):
    found = device_speeds("cpu", seconds=1.0, clock=ticking(0.5))
    flops = found["matmul_fp32_flops_per_second"]
    assert flops["matrix_size"] == 128
    assert flops["median"] == flops["best"] == pytest.approx(2 * 128**3 / 0.5)
    assert (flops["spread"], flops["num_repeats"]) == (0, 5)
    assert found["copy_bytes_per_second"]["median"] == pytest.approx(2 * 2**20 / 0.5)
    assert found["not_measured"] == found["notes"] == []


def test_spread_is_the_interquartile_range_over_the_median():
    calls = count()
    stopwatch = Stopwatch(torch.device("cpu"), lambda: 0.0)
    durations = [99.0, 1.0, 1 / 2, 1 / 3, 1 / 4, 1 / 5]  # the first warms up; then rates 1 to 5
    stopwatch.time = lambda call: durations[next(calls)]  # type: ignore[method-assign]
    rate = stopwatch.rate(lambda: None, amount=1.0, budget_seconds=0.1)
    assert rate == pytest.approx({"median": 3, "best": 5, "spread": 2 / 3, "num_repeats": 5})


def test_repeats_go_on_until_the_budget_is_spent():
    stopwatch = Stopwatch(torch.device("cpu"), ticking(0.125))
    assert stopwatch.rate(lambda: None, amount=1.0, budget_seconds=1.0)["num_repeats"] == 8
    assert stopwatch.rate(lambda: None, amount=1.0, budget_seconds=100.0)["num_repeats"] == device_peak.MAX_REPEATS


def measure_fp32(clock, budget_seconds: float):
    place = torch.device("cpu")
    return device_peak._measure_matmul(place, Stopwatch(place, clock), budget_seconds, dtype=torch.float32)


def test_matmul_repeats_at_the_best_size_and_keeps_the_fastest_product_seen():
    # A size takes 3 timed calls, so 6 looks at the clock: 128 and 256 take 1 ms; 512 takes 50, above 0.4 / 16 s.
    rate = measure_fp32(ticking(*[0.001] * 12, 0.05), budget_seconds=0.4)
    assert rate["matrix_size"] == 256
    assert rate["best"] == pytest.approx(2 * 256**3 / 0.001)
    assert rate["median"] == pytest.approx(2 * 256**3 / 0.05)


def test_fixed_cost_of_each_call_does_not_hide_larger_sizes(monkeypatch):
    monkeypatch.setattr(device_peak, "MAX_MATRIX", {"cpu": 512})
    assert measure_fp32(ticking(0.016), budget_seconds=0.4)["matrix_size"] == 512


def test_device_is_warmed_up_for_the_given_seconds(monkeypatch):
    calls: list[str] = []
    monkeypatch.setattr(device_peak, "_product", lambda *_: lambda: calls.append("product"))
    place = torch.device("cpu")
    device_peak._warm_up(place, Stopwatch(place, ticking(0.25)), seconds=3.0)
    assert len(calls) == 4  # each takes three looks at the clock


def test_one_hiccup_does_not_end_the_search_for_a_size(monkeypatch):
    monkeypatch.setattr(device_peak, "MAX_MATRIX", {"cpu": 256})
    slow_second_call = [0.001, 0.001, 1.0, 1.0]
    assert measure_fp32(ticking(*slow_second_call, 0.001), budget_seconds=0.4)["matrix_size"] == 256


def test_accelerator_is_waited_for_before_and_after_each_call(monkeypatch):
    events: list[str] = []
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda place: events.append(f"wait {place}"))

    def clock() -> float:
        events.append("clock")
        return 0.0

    Stopwatch(torch.device("cuda:1"), clock).time(lambda: events.append("call"))
    assert events == ["wait cuda:1", "clock", "call", "wait cuda:1", "clock"]


def test_device_is_warmed_up_before_it_is_measured(monkeypatch, small_copies):
    events: list[str] = []
    rate = {"median": 1.0, "best": 1.0, "spread": 0.0, "num_repeats": 5}
    monkeypatch.setattr(device_peak, "_warm_up", lambda *_: events.append("warm up"))
    monkeypatch.setattr(device_peak, "_measure_matmul", lambda *_, **__: events.append("measure") or rate)
    device_speeds("cpu", clock=ticking(0.5))
    assert events == ["warm up", "measure", "measure"]


@pytest.mark.parametrize(("median", "num_notes"), [(0.4, 1), (0.6, 0)])
def test_rates_far_below_their_best_are_noted(median, num_notes):
    assert len(device_peak._notes({"copy": {"median": median, "best": 1.0}}, num_cores_of_others=0.0)) == num_notes


@pytest.mark.parametrize(("core_seconds", "expected"), [(1.0, []), (40.0, ["Other processes used 1.6 cores"])])
def test_other_processes_on_the_cores_are_noted(monkeypatch, small_copies, core_seconds, expected):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    readings = iter([100.0, 100.0 + core_seconds])
    monkeypatch.setattr(device_peak, "_core_seconds_of_others", lambda: next(readings))
    monkeypatch.setattr(device_peak, "_warm_up", lambda *_: None)
    monkeypatch.setattr(device_peak, "_measures", lambda place: {})
    found = device_speeds("cpu", clock=ticking(25.0))
    assert [note.partition(" meanwhile")[0] for note in found["notes"]] == expected


def test_work_of_others_is_all_work_on_our_cores_but_our_own(monkeypatch):
    def core(user: float) -> types.SimpleNamespace:
        return types.SimpleNamespace(user=user, system=2.0, idle=500.0, steal=3.0)

    cores = [core(10.0), core(20.0), core(1000.0)]
    monkeypatch.setattr(device_peak.psutil, "cpu_times", lambda percpu: cores)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1}, raising=False)
    monkeypatch.setattr(device_peak.time, "process_time", lambda: 15.0)
    assert device_peak._core_seconds_of_others() == 10 + 20 + 2 * (2 + 3) - 15


def test_failing_measurement_leaves_the_others(monkeypatch, small_copies):
    def fail(*_: object) -> None:
        raise RuntimeError("no room\nand a long story")

    monkeypatch.setattr(device_peak, "_measure_copy", fail)
    found = device_speeds("cpu", seconds=0.1, clock=ticking(0.5))
    assert found["not_measured"] == ["copy_bytes_per_second was not measured: no room"]
    assert "copy_bytes_per_second" not in found
    assert "matmul_fp32_flops_per_second" in found


def test_copy_that_would_run_in_a_cache_is_refused(monkeypatch):
    monkeypatch.setattr(device_peak, "MAX_COPY_BYTES", {"cpu": 2**20})
    with pytest.raises(RuntimeError, match="would run in a cache"):
        device_peak._copy_bytes(torch.device("cpu"))


def test_chosen_fp32_precision_is_left_as_it_was():
    before = torch.backends.cuda.matmul.fp32_precision
    with device_peak._fp32_precision("tf32"):
        assert torch.backends.cuda.matmul.fp32_precision == "tf32"
    assert torch.backends.cuda.matmul.fp32_precision == before


def test_real_cpu_rates_are_whole_and_json():
    found = json.loads(json.dumps(device_speeds("cpu", seconds=0.2)))
    for name in CPU_RATES:
        rate = found[name]
        assert rate["best"] >= rate["median"] > 1e6
        assert rate["num_repeats"] >= device_peak.MIN_REPEATS
        assert rate["spread"] >= 0
    assert found["copy_bytes_per_second"]["num_bytes"] >= device_peak.MIN_COPY_BYTES
    assert found["tf32_allowed"] is None


@pytest.mark.parametrize("device", ["toaster", "cuda:99"])
def test_device_that_is_not_there_is_wrong_use(device):
    with pytest.raises(UsageError, match=f"device '{device}' cannot be used here"):
        device_speeds(device)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_rates_are_ordered_as_the_hardware_orders_them():
    found = device_speeds("cuda", seconds=2.0)
    assert found["not_measured"] == []
    assert found["matmul_bf16_flops_per_second"]["median"] > found["matmul_fp32_flops_per_second"]["median"]
    pinned, pageable = (found[f"host_to_device_{kind}_bytes_per_second"]["best"] for kind in ("pinned", "pageable"))
    assert found["copy_bytes_per_second"]["median"] > pinned > pageable
