"""What is forecast of a planted ring is what it does, and more devices are recommended where they pay alone."""

import io
import itertools
import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from rich.console import Console
from typer.testing import CliRunner

from legroom import api
from legroom.cli.app import app
from legroom.errors import JobCrashed, OutOfMemory, UsageError
from legroom.job import Settings
from legroom.questions.devices.ask import foresee
from legroom.questions.devices.fake import FakeRing
from legroom.questions.devices.records import (
    BackwardTimes,
    TimeBackward,
    TimeDataParallel,
    TimeRanks,
    TimeWrapped,
)
from legroom.questions.devices.tables import points_table
from legroom.questions.devices.view import print_devices, rows
from legroom.questions.devices.wire import epoch_traffic, wire_rows
from legroom.questions.rate.fake import FakeLearner, FakeLearning
from legroom.reports.saved_answers import save_answer
from legroom.requests import Describe
from legroom.session import advise_again
from legroom.testing import FakeMachine, plant_gpu, plant_host

OWN = Settings(batch_size=64)


def ask(tmp_path, ring=None, *, host=None, machine=None, resume=False, **words):
    engine = machine or FakeMachine(ring or FakeRing(), num_samples=60_000, baseline=OWN)
    run = api.Run(out=tmp_path, engine=engine, resume=resume, host=host or plant_host(num_cores=4))
    return api.devices("digits", device=words.pop("device", "cpu"), run=run, **{"batch_size": 64, **words})


def point(answer, num_devices, scaling="weak"):
    found = [each for each in answer.points if (each["num_devices"], each["scaling"]) == (num_devices, scaling)]
    assert len(found) == 1
    return found[0]


RINGS = {
    "compute": FakeRing(gradient_bytes=(40_000,) * 4, sample_seconds=0.001),
    "bytes": FakeRing(gradient_bytes=(4_000_000,) * 8, bandwidth=2e8),
    "messages": FakeRing(gradient_bytes=(2_000_000,) * 8, latency=1e-3, bandwidth=1e10),
    "theft": FakeRing(busy_cores=1.0, bandwidth=5e8),
    "contention": FakeRing(contention=1.4),
    "copies": FakeRing(contention=1.4, copy_bytes_per_second=5e9),
    "wrapping": FakeRing(gradient_bytes=(40_000,) * 4, wrapping=0.004, contention=1.4),
    "buffers": FakeRing(buffer_bytes=4_000_000, num_buffer_messages=2, latency=5e-4),
}


@pytest.mark.parametrize("name", RINGS)
def test_the_planted_link_is_recovered(tmp_path, name):
    ring = RINGS[name]
    answer = ask(tmp_path, ring, measured=2)
    assert answer.latency_seconds == pytest.approx(ring.latency, rel=0.01)
    assert answer.bandwidth_bytes_per_second == pytest.approx(ring.bandwidth, rel=0.01)


@pytest.mark.parametrize("name", RINGS)
@pytest.mark.parametrize("scaling", ["weak", "strong"])
def test_what_two_devices_forecast_is_what_four_and_sixteen_planted_ones_take(tmp_path, name, scaling):
    ring = RINGS[name]
    answer = ask(tmp_path, ring, measured=2, host=plant_host(num_cores=2))
    for num in (4, 16):
        found, size = point(answer, num, scaling), 64 if scaling == "weak" else 64 / num
        assert found["predicted"]
        assert found["exposed_seconds"] == pytest.approx(ring.exposed(num, size), rel=0.03, abs=1e-5)
        truth = ring.contention * ring.compute(size) + ring.exposed(num, size)
        assert found["step_seconds"] == pytest.approx(truth, rel=0.1), (
            "between the sizes timed the pass is a line in ln"
        )
        low, high = found["range"]
        assert low < found["step_seconds"] < high


def test_measured_points_are_marked_and_hold_their_forecast_beside_them(tmp_path):
    ring = RINGS["bytes"]
    answer = ask(tmp_path, ring)
    for num in (2, 4):
        found = point(answer, num)
        assert not found["predicted"]
        assert found["step_seconds"] == pytest.approx(ring.compute(64) + ring.exposed(num, 64))
        assert found["forecast_seconds"] == pytest.approx(found["step_seconds"], rel=0.03)
        assert found["difference_seconds"] == pytest.approx(ring.exposed(num, 64)), "T_N - T_1 / N, a step"
    assert point(answer, 8)["predicted"]


def test_what_is_exposed_leaves_a_step_the_time_that_it_takes_without_sync(tmp_path):
    # Stalls in most rounds but in few steps: the median over rounds is longer than that over steps.
    machine = FakeMachine(RINGS["bytes"], num_samples=60_000)
    whole = machine.answer

    def stalled(request):
        found = whole(request)
        if not isinstance(request, TimeRanks):
            return found
        return replace(found, steps=[replace(each, exposed_seconds=1.1 * each.sync_seconds) for each in found.steps])

    machine.answer = stalled
    ring = RINGS["bytes"]
    two = point(ask(tmp_path, machine=machine, measured=2), 2)
    assert two["compute_seconds"] == pytest.approx(ring.compute(64))
    assert two["exposed_seconds"] == pytest.approx(ring.exposed(2, 64))


def test_what_sync_costs_one_process_alone_is_in_every_forecast_of_several(tmp_path):
    machine = FakeMachine(RINGS["wrapping"], num_samples=60_000)
    words = {"host": plant_host(gpus=(plant_gpu(),)), "device": "cuda", "link": "nvlink"}
    answer = ask(tmp_path, machine=machine, **words)
    assert [type(each) for each in machine.asked].count(TimeWrapped) == 1
    assert point(answer, 2)["exposed_seconds"] > 0.004
    assert advise_again(tmp_path, "devices") == answer


def slower_than_its_law(ring, seconds, times=1.0):
    """A machine of that ring whose steps of several expose so much more than any law says, and take so many times."""
    machine = FakeMachine(ring, num_samples=60_000)
    whole = machine.answer

    def answer_of(request):
        found = whole(request)
        if not isinstance(request, TimeRanks):
            return found
        steps = [
            replace(
                each,
                exposed_seconds=each.exposed_seconds + seconds,
                sync_seconds=times * (each.sync_seconds + seconds),
                sync_range=(times * (each.sync_seconds + seconds),) * 2,
            )
            for each in found.steps
        ]
        return replace(found, steps=steps)

    machine.answer = answer_of
    return machine


@pytest.mark.parametrize("scaling", ["weak", "strong"])
def test_what_a_forecast_missed_of_the_fewest_devices_is_in_that_of_more(tmp_path, scaling):
    ring, missed = RINGS["compute"], 0.05
    plain = ask(tmp_path / "a", ring, measured=2)
    answer = ask(tmp_path / "b", machine=slower_than_its_law(ring, missed), measured=2)
    assert point(answer, 2, scaling)["forecast_seconds"] == point(plain, 2, scaling)["forecast_seconds"], "from one"
    for num in (4, 8):
        more = point(answer, num, scaling)["exposed_seconds"] - point(plain, num, scaling)["exposed_seconds"]
        assert more == pytest.approx(missed, rel=0.02)
    (note,) = [note for note in answer.notes if note.startswith("The forecast missed what was measured")]
    assert f"2 devices ({scaling}) take" in note
    assert not [note for note in plain.notes if "forecast missed" in note]
    assert point(answer, 4, "strong")["step_seconds"] > point(plain, 2, "strong")["step_seconds"]


@pytest.mark.parametrize("times", [0.5, 3.0])
def test_the_range_of_more_devices_is_as_wide_as_the_fewest_were_off(tmp_path, times):
    ring = RINGS["compute"]
    machine = slower_than_its_law(ring, 0.0, times)
    answer = ask(tmp_path, machine=machine, measured=2)
    four, truth = point(answer, 4), times * (ring.compute(64) + ring.exposed(4, 64))
    assert four["range"][0] <= 1.02 * truth
    assert four["range"][1] >= 0.98 * truth


def test_a_process_that_cannot_be_wrapped_leaves_a_forecast_of_the_link(tmp_path):
    machine = FakeMachine(RINGS["bytes"])
    whole = machine.answer

    def answer_of(request):
        if isinstance(request, TimeWrapped):
            raise JobCrashed("Rank 0 of 1 died of SIGKILL")
        return whole(request)

    machine.answer = answer_of
    answer = ask(tmp_path, machine=machine, measured=2)
    assert point(answer, 4)["exposed_seconds"] == pytest.approx(RINGS["bytes"].exposed(4, 64), rel=0.03)
    assert any("in one process: Rank 0 of 1 died of SIGKILL" in sentence for sentence in answer.not_measured)


@pytest.mark.parametrize("name", RINGS)
def test_more_devices_never_expose_less_of_the_same_batch_each(tmp_path, name):
    answer = ask(tmp_path, RINGS[name], measured=1, link="10GbE")
    exposed = [each["exposed_seconds"] for each in answer.points if each["scaling"] == "weak"]
    assert all(later >= earlier - 1e-12 for earlier, later in itertools.pairwise(exposed))
    assert answer.points[0]["num_devices"] == 1
    assert answer.points[-1]["num_devices"] == 4096


def test_strong_shares_the_batch_and_weak_keeps_it(tmp_path):
    answer = ask(tmp_path)
    assert point(answer, 4, "strong")["batch_size"] == 16
    assert point(answer, 4, "strong")["global_batch"] == 64
    assert point(answer, 4, "weak")["batch_size"] == 64
    assert point(answer, 4, "weak")["global_batch"] == 256
    assert {each["scaling"] for each in ask(tmp_path / "w", scaling="weak").points} == {"weak"}


def test_devices_that_compute_are_taken_and_devices_that_wait_are_not(tmp_path):
    assert ask(tmp_path / "a", RINGS["compute"]).num_devices == 4
    slow = ask(tmp_path / "b", FakeRing(bandwidth=1e7))
    assert (slow.num_devices, slow.stops_paying_at) == (1, 2)


def stops(answer):
    return next(value for name, value, _ in rows(answer) if name == "stops paying")


def test_how_far_more_devices_were_looked_at_is_told_where_none_stopped_paying(tmp_path):
    fast = FakeRing(gradient_bytes=(4,), sample_seconds=0.1, bandwidth=1e15, latency=1e-12)
    strong = ask(tmp_path / "a", fast, batch_size=48, scaling="strong", link="10Tb/s,0us", measured=1)
    assert strong.stops_paying_at is None
    assert (strong.num_seen, stops(strong)) == (16, "not seen up to 16"), "more cannot share 48 samples evenly"
    alone = ask(tmp_path / "b", host=plant_host(gpus=(plant_gpu(),)), device="cuda")
    assert (alone.stops_paying_at, stops(alone)) == (None, "no forecast")
    assert stops(ask(tmp_path / "c", FakeRing(bandwidth=1e7))) == "at 2"


@pytest.mark.parametrize(
    ("words", "num_samples", "because"),
    [
        ({"batch_size": 33, "scaling": "strong"}, 60_000, "33 samples cannot be shared out evenly to 2 devices"),
        ({"batch_size": 66, "scaling": "strong"}, 60_000, "66 samples cannot be shared out evenly to 4 devices"),
        ({"scaling": "weak"}, 100, "an update of 2 devices takes 128 samples, and there are 100"),
        ({"scaling": "weak"}, 200, "an update of 4 devices takes 256 samples, and there are 200"),
        ({"batch_size": 2, "scaling": "strong"}, 60_000, "2 samples leave none for each of more"),
        ({"most": 1}, 60_000, "no more may be taken"),
        ({"most": 2}, 60_000, "no more may be taken"),
    ],
)
def test_why_no_more_devices_are_taken_is_what_bars_them(tmp_path, words, num_samples, because):
    ring = FakeRing(gradient_bytes=(4,), sample_seconds=0.1, bandwidth=1e15, latency=1e-12, gain_by_threads=0.774)
    machine = FakeMachine(ring, num_samples=num_samples)
    answer = ask(tmp_path, machine=machine, **words)
    assert answer.recommendations[0].because.split("; ")[-1] == because
    if answer.stops_paying_at is None:
        assert next(why for name, _, why in rows(answer) if name == "stops paying") == because
    assert stops(answer) != "no forecast"


def test_local_peak_leaves_samples_for_a_second_device(tmp_path):
    machine = FakeMachine(FakeRing(fixed_seconds=1.0, gradient_bytes=(4,)), num_samples=512)
    answer = ask(tmp_path / "a", machine=machine, rule="local-peak")
    assert (answer.batch_size, answer.num_devices) == (256, 2)
    alone = FakeMachine(FakeRing(fixed_seconds=1.0), num_samples=512)
    assert ask(tmp_path / "b", machine=alone, rule="local-peak", most=1).batch_size == 512


def test_no_more_devices_are_taken_than_may_be(tmp_path):
    assert ask(tmp_path / "a", RINGS["compute"], most=2).num_devices == 2
    assert ask(tmp_path / "b", RINGS["compute"], link="nvlink", measured=1).num_devices > 4


def test_the_logbook_alone_gives_the_answer_again_and_a_resumed_run_measures_nothing(tmp_path):
    answer = ask(tmp_path, RINGS["theft"], price=2.5, speeds=[1, 1, 0.6])
    assert advise_again(tmp_path, "devices") == answer
    machine = FakeMachine(RINGS["theft"])
    again = ask(tmp_path, machine=machine, resume=True, price=2.5, speeds=[1, 1, 0.6])
    assert machine.asked == []
    assert again.points == answer.points


def test_an_earlier_run_with_another_batch_does_not_tell(tmp_path):
    ask(tmp_path, FakeRing(sample_seconds=0.01), batch_size=48)
    answer = ask(tmp_path)
    assert advise_again(tmp_path, "devices") == answer


def test_one_gpu_without_a_link_says_what_it_lacks(tmp_path):
    answer = ask(tmp_path, host=plant_host(gpus=(plant_gpu(),)), device="cuda")
    assert [each["num_devices"] for each in answer.points] == [1, 1]
    assert any("--link" in sentence for sentence in answer.not_measured)


def test_one_gpu_with_a_link_is_a_forecast_by_ring_or_tree(tmp_path):
    answer = ask(tmp_path, host=plant_host(gpus=(plant_gpu(),)), device="cuda", link="100GbE")
    found = point(answer, 1024)
    assert found["exposed_seconds"] == min(found["exposed_by"].values())
    assert found["algorithm"] == "tree", "a thousand messages of latency"
    assert any("NCCL" in sentence for sentence in answer.not_measured)


def test_what_crosses_the_wire_is_counted(tmp_path):
    ring = FakeRing(buffer_bytes=8_000, num_buffer_messages=2, norm_features=[64, 128])
    answer = ask(tmp_path, ring)
    rows = {row["what"]: row for row in answer.wire}
    assert rows["gradient buckets"]["num_bytes"] == 32_000_000
    assert rows["buffers"]["num_messages"] == 2
    gathered, summed = 4 * (2 * 192 + 2), 4 * 2 * 192
    assert rows["SyncBatchNorm"]["num_bytes"] == gathered + summed
    assert any("saves 7.8 KiB in 2 messages, about" in note for note in answer.notes)
    assert answer.broadcast_buffers is False
    kept = ask(tmp_path / "k", FakeRing(buffer_bytes=8, num_buffer_messages=1, other_buffers=["queue"]))
    assert kept.broadcast_buffers is True


def test_the_terminal_says_when_each_kind_of_message_travels(tmp_path):
    console = Console(width=250, file=io.StringIO())
    print_devices(console, ask(tmp_path, FakeRing(norm_features=[64])))
    text = console.file.getvalue()
    for what, when in (("SyncBatchNorm", "on GPUs alone"), ("count", "weigh unequally"), ("metrics", "once a second")):
        assert any(what in line and when in line for line in text.splitlines())


def test_what_synchronised_batchnorm_gathers_goes_to_each_of_the_other_devices():
    facts = BackwardTimes(norm_features=[64, 128], gradient_bytes=[4], ready_seconds=[0.1])
    rows = {row["what"]: row for row in wire_rows(facts, SimpleNamespace(bucket_cap_mb=None), 8)}
    assert rows["SyncBatchNorm"]["link_bytes"] == 7 * 4 * (2 * 192 + 2) + 2 * 7 / 8 * 4 * 2 * 192
    assert rows["gradient buckets"]["link_bytes"] == 2 * 7 / 8 * 4


def test_batchnorm_that_sees_fewer_samples_is_told(tmp_path):
    ring = FakeRing(gradient_bytes=(40_000,) * 4, sample_seconds=0.001, norm_features=[64])
    answer = ask(tmp_path, ring, scaling="strong")
    assert any("BatchNorm would see 16 samples instead of 64" in note for note in answer.notes)


def test_batchnorm_sees_a_pass_where_a_batch_is_made_in_several(tmp_path):
    ring = FakeRing(gradient_bytes=(40_000,) * 4, sample_seconds=0.001, norm_features=[64], largest_batch=16)
    answer = ask(tmp_path, ring, scaling="weak")
    assert [answer.settings[name] for name in ("batch_size", "accumulation_steps")] == [16, 4]
    assert any("BatchNorm would see 16 samples instead of 64" in note for note in answer.notes)


def test_passes_that_make_another_update_say_which(tmp_path):
    answer = ask(tmp_path / "a", FakeRing(largest_batch=24), scaling="weak", batch_size=99, most=1)
    assert [answer.settings[name] for name in ("batch_size", "accumulation_steps")] == [20, 5]
    assert "A run with these settings makes an update of 100 samples, not 99: 5 passes of 20 on each device" in (
        answer.notes
    )
    even = ask(tmp_path / "b", FakeRing(largest_batch=16), scaling="weak")
    assert not any("makes an update of" in note for note in even.notes)


def test_a_job_that_joins_passes_gets_the_settings_that_were_timed_and_a_rate_of_its_own_update(tmp_path):
    machine = FakeMachine(FakeRing(), num_samples=60_000, baseline=replace(OWN, accumulation_steps=4))
    answer = ask(tmp_path, machine=machine, scaling="weak")
    plain = ask(tmp_path / "plain", scaling="weak")
    assert answer.settings["accumulation_steps"] == 1
    assert answer.points == plain.points
    assert answer.batches[0]["learning_rate"] < plain.batches[0]["learning_rate"], "a quarter of its own update"
    assert any("joins 4 passes into an update" in note for note in answer.notes)


def test_threads_of_a_run_that_were_not_timed_are_told(tmp_path):
    told = "Processes were timed with 1 thread each; legroom train --devices 2 gives each 2"
    two = ask(tmp_path / "a", RINGS["compute"], most=2)
    assert any(note.startswith(told) for note in two.notes)
    four = ask(tmp_path / "b", RINGS["compute"])
    assert four.num_devices == 4
    assert not any("Processes were timed" in note for note in four.notes)


def test_measured_and_forecast_steps_have_one_definition_of_overlap(tmp_path):
    ring = FakeRing(
        buffer_bytes=4_000_000, num_buffer_messages=2, latency=5e-4, copy_bytes_per_second=5e9, sample_seconds=0.001
    )
    measured = point(ask(tmp_path / "a", ring, measured=4), 4)
    forecast = point(ask(tmp_path / "b", ring, measured=2), 4)
    assert [measured["predicted"], forecast["predicted"]] == [False, True]
    assert measured["communication_seconds"] == pytest.approx(forecast["communication_seconds"], rel=0.02)
    assert measured["overlap"] == pytest.approx(forecast["overlap"], abs=0.02)
    assert measured["communication_seconds"] > measured["buckets_seconds"] + ring.broadcast(4)


def test_a_dry_run_foresees_the_runs_that_there_would_be(tmp_path):
    run = api.Run(out=tmp_path, host=plant_host(num_cores=6))

    def num_together(**words):
        return foresee("digits", device="cpu", run=run, **words).probes[2].num_probes

    assert num_together() == (3, 3), "2, 4 and 6"
    assert num_together(measured=4) == (2, 2)
    assert num_together(link="10GbE") == (0, 0)
    assert foresee("digits", device="cpu", run=run, link="10GbE").probes[3].num_probes == (1, 1)
    with pytest.raises(UsageError, match="--measure is -1, and this machine has 6"):
        foresee("digits", device="cpu", measured=-1, run=run)


def test_parameters_without_gradients_name_the_flag_and_set_it(tmp_path):
    machine = FakeMachine(FakeRing(unused_parameters=["head.weight"]))
    answer = ask(tmp_path, machine=machine)
    assert any("find_unused_parameters" in note for note in answer.notes)
    assert all(request.find_unused for request in machine.asked if isinstance(request, TimeRanks))


def test_unequal_devices_end_together_and_the_straggler_is_named(tmp_path):
    uneven = ask(tmp_path, RINGS["compute"], speeds=[1, 1, 0.5]).unequal
    assert uneven["straggler"] == 3
    assert uneven["split_seconds"] < uneven["even_seconds"]
    assert sum(uneven["batches"]) == uneven["global_batch"]
    three = ask(tmp_path / "b", RINGS["compute"], speeds=[1, 1, 0.6], batch_size=48, scaling="strong").unequal
    assert list(three["batches"]) == [19, 18, 11], "whole samples, and all of them"
    few = ask(tmp_path / "c", RINGS["compute"], speeds=[1, 0.01], batch_size=4, scaling="strong").unequal
    assert list(few["batches"]) == [4, 0]


def test_an_update_of_more_samples_than_there_are_has_no_epoch_and_no_cost(tmp_path):
    machine = FakeMachine(num_samples=1437, baseline=Settings(batch_size=32))
    answer = ask(tmp_path, machine=machine, batch_size=32, link="nvlink", price=2.5)
    within, beyond = point(answer, 32), point(answer, 64)
    assert within["epoch_seconds"] == pytest.approx(1437 / 1024 * within["step_seconds"])
    assert (beyond["epoch_seconds"], beyond["epoch_cost"]) == (None, None)
    (note,) = [note for note in answer.notes if "needs more samples" in note]
    assert note.startswith("From 64 devices on an update needs more samples (2,048) than the 1,437 there are")
    assert not [note for note in ask(tmp_path / "b", scaling="strong").notes if "needs more samples" in note]
    page = (tmp_path / "report.html").read_text()
    assert "devices-epoch" in page


def test_costs_below_a_hundredth_are_not_told_in_powers_of_ten(tmp_path):
    table = points_table(answer := ask(tmp_path, price=1e-6), answer.points)
    (place,) = [place for place, column in enumerate(table.columns) if column.label == "cost of an epoch"]
    assert {row[place] for row in table.rows} <= {"< 0.01", ""}


def test_cores_that_are_slower_than_one_of_them_are_told_and_are_no_measure(tmp_path):
    answer = ask(tmp_path, replaced(RINGS["compute"], gain_by_threads=0.02))
    assert any(
        note.startswith("A process with all 4 cores takes 50 times as long as one with") for note in answer.notes
    )
    assert "over one with all cores" not in answer.recommendations[0].because
    quiet = ask(tmp_path / "b", replaced(RINGS["compute"], gain_by_threads=1.5))
    assert not [note for note in quiet.notes if "times as long as one with" in note]


def test_batches_beyond_those_that_legw_was_published_with_are_told(tmp_path):
    answer = ask(tmp_path, link="nvlink")
    (note,) = [note for note in answer.notes if "LEGW was published" in note]
    assert note.startswith("From 1,024 devices on the global batch of 65,536 is larger than any")
    strong = ask(tmp_path / "b", link="nvlink", scaling="strong")
    assert not [note for note in strong.notes if "LEGW was published" in note]


def test_a_job_whose_batches_carry_state_is_forecast_over_a_link_that_is_named(tmp_path):
    machine = FakeMachine(num_samples=60_000)
    whole = machine.answer
    machine.answer = lambda request: (
        replace(whole(request), carries_state=True) if isinstance(request, Describe) else whole(request)
    )
    answer = ask(tmp_path, machine=machine, link="10GbE")
    assert all(each["predicted"] for each in answer.points if each["num_devices"] > 1)
    assert any("carry state" in sentence for sentence in answer.not_measured)


def test_an_epoch_costs_devices_times_hours(tmp_path):
    answer = ask(tmp_path, price=3.6)
    found = point(answer, 4)
    assert found["epoch_cost"] == pytest.approx(4 * found["epoch_seconds"] * 0.001)


def test_local_peak_grows_the_batch_until_throughput_does_not_then_only_devices(tmp_path):
    machine = FakeMachine(FakeRing(fixed_seconds=0.01, sample_seconds=0.0001), num_samples=60_000)
    answer = ask(tmp_path, machine=machine, rule="local-peak")
    assert answer.batch_size > 64
    assert {each["scaling"] for each in answer.points} == {"weak"}
    tried = [request.batch_size for request in machine.asked if isinstance(request, TimeBackward)]
    assert max(tried) == 2 * answer.batch_size, "the first that gained too little"
    assert advise_again(tmp_path, "devices") == answer


def test_table_3_of_the_talk_is_counted(tmp_path):
    # ResNet-50, 90 epochs of 1.28 million images, 104 MB of gradients, 10^18 operations in all.
    facts, wire = BackwardTimes(flops_per_sample=1e18 / 115.2e6), [{"what": "gradient buckets", "num_bytes": 104e6}]
    wire[0]["num_messages"] = 5
    small, large = (epoch_traffic(facts, wire, 115_200_000, size) for size in (32, 32_768))
    assert small["num_messages"] == pytest.approx(3.6e6)
    assert small["bytes_moved"] == pytest.approx(374e12, rel=0.005)
    assert small["operations_per_byte"] == pytest.approx(2673, rel=0.005)
    assert large["num_messages"] == pytest.approx(3516, abs=1), "the talk has 3686"
    assert large["operations_per_byte"] == pytest.approx(2.7e6, rel=0.02)
    assert [each["num_messages"] for each in ask(tmp_path).traffic][:2] == [60_000 / 64, 60_000 / 128]


def test_a_model_cut_over_devices_holds_less_on_each(tmp_path):
    ring = FakeRing(contention=3.0)
    rows = ask(tmp_path, ring).splits
    two = next(row for row in rows if (row["name"], row["num_devices"]) == ("fsdp", 2))
    assert two["step_seconds"] > 3 * 1.5 * ring.backward(32), "neighbours slow cut models down too"
    for name in ("fsdp", "tensor", "pipeline"):
        held = [row["memory_bytes"] for row in rows if row["name"] == name]
        assert held == sorted(held, reverse=True)
        assert len(held) > 2


BAD = [
    ({"measured": 5}, "this machine has 4"),
    ({"measured": 0}, "--measure is 0"),
    ({"most": 0}, "--max"),
    ({"most": 5000}, "--max"),
    ({"batch_size": 0}, "--batch-size"),
    ({"batch_size": 100_000}, "samples there are"),
    ({"link": "10gb"}, "Did you mean 10gbe"),
    ({"link": "0Gb/s,5us"}, "moves nothing"),
    ({"rule": "peak"}, "local-peak"),
    ({"speeds": [1.0]}, "--speeds"),
    ({"speeds": [1.0, -1.0]}, "--speeds"),
    ({"price": -1.0}, "--price"),
    ({"precision": "fp8"}, "precision"),
    ({"device": "cuda"}, "no GPU"),
]


@pytest.mark.parametrize(("words", "said"), BAD, ids=[said for _, said in BAD])
def test_wrong_words_are_refused_with_a_sentence(tmp_path, words, said):
    with pytest.raises(UsageError, match=said):
        ask(tmp_path, **words)
    if said != "samples there are":  # nobody knows before the job is read
        with pytest.raises(UsageError, match=said):
            foresee("digits", run=api.Run(out=tmp_path, host=plant_host(num_cores=4)), **{"device": "cpu", **words})


def test_a_batch_that_does_not_fit_one_device_is_made_in_passes_and_devices_save_them(tmp_path):
    ring = FakeRing(largest_batch=16, gradient_bytes=(40_000,) * 4, sample_seconds=0.001)
    answer = ask(tmp_path, ring)
    one, four = point(answer, 1, "strong"), point(answer, 4, "strong")
    assert one["predicted"]
    assert one["step_seconds"] == pytest.approx(4 * 1.5 * ring.backward(16) + ring.fixed_seconds)
    assert not four["predicted"], "a share of it fits, so that was run"
    assert four["speedup"] == pytest.approx(one["step_seconds"] / four["step_seconds"])
    assert any("A batch of 64 does not fit one device, where 16 do" in note for note in answer.notes)
    assert {row["num_devices"] for row in answer.splits} >= {2, 4, 8}
    weak = ask(tmp_path / "weak", ring, scaling="weak", most=2)
    assert [weak.settings[name] for name in ("batch_size", "accumulation_steps")] == [16, 4]
    assert advise_again(tmp_path, "devices") == answer


def test_a_model_of_which_no_sample_fits_is_told_what_is_left_on_each_of_several(tmp_path):
    with pytest.raises(OutOfMemory, match=r"Not one sample fits a device\. .* on each of 8, .*--shard"):
        ask(tmp_path, FakeRing(largest_batch=0))


@pytest.mark.parametrize(
    ("name", "said"),
    [("AdamW", r"gradients and the state of AdamW take 4\.0 MiB.* 512\.0 KiB on each of 8"), ("Odd", r"take 2\.0 MiB")],
)
def test_the_state_of_a_known_optimizer_is_forecast_where_no_sample_fits(tmp_path, name, said):
    machine = FakeMachine(FakeRing(largest_batch=0))
    whole = machine.answer
    planted = {"parameter_bytes": 2**20, "optimizer_name": name}
    machine.answer = lambda request: (
        replace(whole(request), **planted) if isinstance(request, Describe) else whole(request)
    )
    with pytest.raises(OutOfMemory, match=said):
        ask(tmp_path, machine=machine)


def test_devices_that_cannot_run_together_leave_those_that_can(tmp_path):
    machine = FakeMachine(RINGS["bytes"])
    whole = machine.answer

    def answer_of(request):
        if isinstance(request, TimeRanks) and request.num_devices == 4:
            raise JobCrashed("Rank 3 of 4 died of SIGKILL")
        return whole(request)

    machine.answer = answer_of
    answer = ask(tmp_path, machine=machine)
    assert not point(answer, 2)["predicted"]
    assert point(answer, 4)["predicted"]
    assert "4 devices together and more: Rank 3 of 4 died of SIGKILL" in answer.not_measured
    assert advise_again(tmp_path, "devices") == answer


def test_processes_of_one_thread_are_not_taken_where_one_with_all_cores_is_as_fast(tmp_path):
    slow = replaced(RINGS["compute"], gain_by_threads=4.0)
    answer = ask(tmp_path / "a", slow)
    assert answer.num_devices == 1
    assert "a process with all cores is 4 times as fast" in answer.recommendations[0].because
    taken = ask(tmp_path / "b", replaced(RINGS["compute"], gain_by_threads=1.5))
    assert taken.num_devices == 4
    assert "over one with all cores" in taken.recommendations[0].because


def replaced(ring, **words):
    """The ring with other planted truths."""
    own = {name: getattr(ring, name) for name in ("latency", "bandwidth", "gradient_bytes", "sample_seconds")}
    return FakeRing(**{**own, **words})


def test_numbers_of_devices_that_no_run_can_have_are_not_recommended(tmp_path):
    uneven = ask(tmp_path / "a", RINGS["compute"], batch_size=66, scaling="strong")
    assert uneven.num_devices == 2
    assert any("cannot be shared out evenly to 4 devices" in note for note in uneven.notes)
    few = FakeMachine(RINGS["compute"], num_samples=100)
    assert ask(tmp_path / "b", machine=few, scaling="weak").num_devices == 1


def test_a_device_that_is_slower_than_the_others_is_named(tmp_path):
    answer = ask(tmp_path, replaced(RINGS["compute"], straggler=1.5))
    assert any("Device 4 of 4 takes 1.50 times as long as the others" in note for note in answer.notes)


def test_settings_are_those_of_a_run_with_what_is_recommended(tmp_path):
    answer = ask(tmp_path, RINGS["compute"], scaling="weak")
    named = {item.name: item.value for item in answer.recommendations}
    for name in ("num_devices", "learning_rate", "warmup_steps", "bucket_cap_mb", "broadcast_buffers"):
        assert answer.settings[name] == named[name]
    assert answer.settings["learning_rate"] == pytest.approx(2 * answer.baseline["learning_rate"])


@pytest.mark.parametrize(
    ("words", "size"),
    [
        ({"batch_size": 128, "scaling": "weak", "link": "10Tb/s,0us", "most": 8}, 1024),
        ({"batch_size": 128, "scaling": "strong"}, 128),
        ({"batch_size": 16, "scaling": "strong"}, 16),
        ({"batch_size": None, "scaling": "strong"}, 32),
        ({"rule": "local-peak", "batch_size": None, "most": 1}, 1024),
    ],
)
def test_the_rate_is_carried_from_the_jobs_own_batch_to_that_of_the_run(tmp_path, words, size):
    ring = FakeRing(gradient_bytes=(400,), fixed_seconds=0.01, norm_features=[64], latency=1e-9)
    machine = FakeMachine(ring, num_samples=60_000, baseline=Settings(batch_size=32, learning_rate=0.1))
    answer = ask(tmp_path, machine=machine, **words)
    rate = next(item for item in answer.recommendations if item.name == "learning_rate")
    assert answer.num_devices * answer.device_batch_size == size
    assert rate.value == pytest.approx(0.1 * (size / 32) ** 0.5)
    assert ("the global batch stays" in rate.because) == (size == 32)
    sees = f"BatchNorm would see {answer.device_batch_size:,} samples instead of 32"
    assert any(sees in note for note in answer.notes) == (answer.device_batch_size != 32)
    assert [row["learning_rate"] for row in answer.batches if row["global_batch"] == size] in ([], [rate.value])


def test_two_gpus_are_timed_in_one_process_too_and_the_coordinators_memory_is_told(tmp_path):
    machine = FakeMachine(FakeRing())
    answer = ask(tmp_path, machine=machine, host=plant_host(gpus=(plant_gpu(), plant_gpu())), device="cuda")
    assert [request.num_devices for request in machine.asked if isinstance(request, TimeDataParallel)] == [2]
    assert answer.data_parallel["coordinator_bytes"] == 32_000_000
    assert answer.data_parallel["global_batch"] == 128
    assert point(answer, 2)["utilisation"] is not None


def test_ranks_wait_for_one_another_less_than_a_job_may_say_nothing(tmp_path):
    machine = FakeMachine(FakeRing())
    run = api.Run(out=tmp_path, engine=machine, host=plant_host(num_cores=2), timeout=100.0)
    api.devices("digits", device="cpu", batch_size=64, run=run)
    (asked,) = [request for request in machine.asked if isinstance(request, TimeRanks)]
    assert 50 < asked.wait_seconds < 90


def test_batches_that_carry_state_are_refused_before_anything_is_measured(tmp_path):
    machine = FakeMachine(FakeRing())
    whole = machine.answer
    machine.answer = lambda request: (
        replace(whole(request), carries_state=True) if isinstance(request, Describe) else whole(request)
    )
    with pytest.raises(UsageError, match="carry state from one to the next"):
        ask(tmp_path, machine=machine)
    assert [type(request) for request in machine.asked] == [Describe]


def test_a_cut_is_said_to_pay_where_it_beats_data_parallelism_alone(tmp_path):
    pays = ask(tmp_path / "a", FakeRing(fixed_seconds=0.05, bandwidth=1e11))
    assert any(note.startswith("A cut pays: ") for note in pays.notes)
    wide = FakeRing(bandwidth=1e7, layer_bytes=[10**9] * 4)
    assert any(note.startswith("No cut of the model") for note in ask(tmp_path / "b", wide).notes)


def test_shares_that_were_not_timed_are_no_ground_for_a_cut_that_pays(tmp_path):
    # Compute that falls with the batch: a share of a 64th takes a 64th, which nobody timed.
    ring = FakeRing(fixed_seconds=1e-6, sample_seconds=0.001, gradient_bytes=(4_000,) * 8, bandwidth=1e11, latency=0.0)
    answer = ask(tmp_path, ring, batch_size=4096, scaling="strong")
    assert {row["num_devices"] for row in answer.splits if row["is_share_timed"]} == {2, 4, 8, 16}
    assert any(note.startswith("No cut of the model over up to 16 devices") for note in answer.notes)
    smaller = next(row for row in answer.splits if (row["name"], row["num_devices"]) == ("fsdp", 4))
    assert smaller["data_parallel_seconds"] == pytest.approx(ring.compute(1024), rel=0.02), "not that of 4096"


def test_a_cut_is_held_against_what_was_measured_and_against_one_device(tmp_path):
    ring = FakeRing(fixed_seconds=0.05, bandwidth=1e11)
    slow = ask(tmp_path / "a", machine=slower_than_its_law(ring, 0.5), batch_size=32, measured=2)
    two = next(row for row in slow.splits if (row["name"], row["num_devices"]) == ("fsdp", 2))
    assert two["data_parallel_seconds"] == pytest.approx(ring.compute(16) + ring.exposed(2, 16) + 0.5)
    assert two["least_seconds"] <= two["one_seconds"] == pytest.approx(ring.compute(32))
    assert two["step_seconds"] > 0.5, "what sync cost beyond the law is charged to cuts too"
    assert any(note.startswith("No cut of the model") for note in slow.notes)
    odd = ask(tmp_path / "b", ring, batch_size=48)
    assert {row["num_devices"] for row in odd.splits} == {2, 4, 8, 16}, "64 devices cannot share 48 samples"
    assert ask(tmp_path / "c", ring, scaling="weak").splits == []


def test_the_answer_has_the_names_scripts_rely_on(tmp_path):
    answer = json.loads(json.dumps(ask(tmp_path).to_json()))
    names = {"points", "bandwidth_bytes_per_second", "latency_seconds", "wire", "num_devices"}
    assert names <= set(answer)
    of_points = {
        "num_devices",
        "step_seconds",
        "speedup",
        "efficiency",
        "exposed_seconds",
        "predicted",
        "scaling",
        "range",
    }
    assert all(of_points <= set(each) for each in answer["points"])


def test_the_page_is_written_with_its_figures(tmp_path):
    ask(tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert all(name in page for name in ("devices-speedup", "devices-parts-weak", "devices-parts-strong"))
    assert all(f"devices-{name}" in page for name in ("communication", "messages", "epoch", "utilisation"))


def test_devices_that_only_inflate_the_batch_are_called_what_they_are(tmp_path):
    learning = FakeLearning(FakeLearner(s_min=200, b_crit=100, best_rate=0.1))
    machine = FakeMachine(RINGS["compute"], learning, num_samples=60_000)
    run = api.Run(out=tmp_path, engine=machine, host=plant_host(num_cores=4))
    found = api.rate("digits", device="cpu", batch_size=64, target="loss=0.2", run=run)
    critical = 150.0
    save_answer(tmp_path, replace(found, critical_batch_size=critical, critical_range=(100.0, 220.0)))
    answer = ask(tmp_path, machine=machine, link="nvlink", measured=1)
    assert answer.critical_batch_size == critical
    rows = [row for row in answer.batches if row["num_devices"] > 1]
    assert all(row["target_speedup"] < row["throughput_speedup"] for row in rows)
    assert [row["above_critical"] for row in rows] == [row["global_batch"] > critical for row in rows]
    assert any("inflate the batch" in note for note in answer.notes)
    assert answer.stops_paying_at is not None
    assert advise_again(tmp_path, "devices") == answer


def test_what_was_found_of_the_file_before_an_edit_was_undone_is_not_taken(tmp_path):
    path, machine = tmp_path / "job.py", FakeMachine(num_samples=60_000)
    run = api.Run(out=tmp_path / "o", engine=machine, host=plant_host(num_cores=4))
    for text in ("# first\n", "# second\n"):
        path.write_text(text)
        found = api.rate(f"{path}:job", device="cpu", batch_size=64, target="loss=0.2", run=run)
    save_answer(tmp_path / "o", replace(found, critical_batch_size=150.0, critical_range=(100.0, 220.0)))
    assert api.devices(f"{path}:job", device="cpu", batch_size=64, run=run).critical_batch_size == 150.0
    path.write_text("# first\n")
    assert api.devices(f"{path}:job", device="cpu", batch_size=64, run=run).critical_batch_size is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--strong", "--weak"], "give one"),
        (["--speeds", "1,fast"], "cannot be read"),
        (["--link", "nvlnk"], "Did you mean"),
        (["--from-table", "none.csv"], "cannot be read"),
        (["--max", "0"], "--max"),
    ],
)
def test_the_command_line_refuses_in_a_sentence_with_code_2(words, said):
    done = CliRunner().invoke(app, ["devices", *words])
    assert done.exit_code == 2
    assert said in done.output


def test_json_of_published_times_is_one_object():
    done = CliRunner().invoke(app, ["devices", "--from-table", "examples/k80_lab.csv", "--json"])
    assert done.exit_code == 0
    assert {"points", "forecasts", "notes", "legroom_version"} <= set(json.loads(done.stdout))
