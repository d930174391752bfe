"""What is forecast of a planted ring is what it does, and more devices are recommended where they pay alone."""

import itertools
import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from legroom import api
from legroom.cli.app import app
from legroom.errors import OutOfMemory, UsageError
from legroom.questions.devices.fake import FakeRing
from legroom.questions.devices.records import TimeBackward, TimeRanks
from legroom.questions.rate.fake import FakeLearner, FakeLearning
from legroom.reports.saved_answers import save_answer
from legroom.session import advise_again
from legroom.testing import FakeMachine, plant_gpu, plant_host


def ask(tmp_path, ring=None, *, host=None, machine=None, resume=False, **words):
    engine = machine or FakeMachine(ring or FakeRing(), num_samples=60_000)
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
    assert rows["SyncBatchNorm"]["num_bytes"] == 4 * (2 * 192 + 2) + 4 * 2 * 192
    assert answer.broadcast_buffers is False
    kept = ask(tmp_path / "k", FakeRing(buffer_bytes=8, num_buffer_messages=1, other_buffers=["queue"]))
    assert kept.broadcast_buffers is True


def test_batchnorm_that_sees_fewer_samples_is_told(tmp_path):
    ring = FakeRing(gradient_bytes=(40_000,) * 4, sample_seconds=0.001, norm_features=[64])
    answer = ask(tmp_path, ring, scaling="strong")
    assert any("BatchNorm would see 16 samples instead of 64" in note for note in answer.notes)


def test_parameters_without_gradients_name_the_flag_and_set_it(tmp_path):
    machine = FakeMachine(FakeRing(unused_parameters=["head.weight"]))
    answer = ask(tmp_path, machine=machine)
    assert any("find_unused_parameters" in note for note in answer.notes)
    assert all(request.find_unused for request in machine.asked if isinstance(request, TimeRanks))


def test_unequal_devices_end_together_and_the_straggler_is_named(tmp_path):
    uneven = ask(tmp_path, RINGS["compute"], speeds=[1, 1, 0.5]).unequal
    assert uneven["straggler"] == 3
    assert uneven["split_seconds"] < uneven["even_seconds"]
    assert sum(uneven["batches"]) == pytest.approx(uneven["global_batch"])


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
    answer = ask(tmp_path)
    row = next(each for each in answer.traffic if each["num_devices"] == 2)
    assert row["num_messages"] == pytest.approx(60_000 / 128)
    assert row["bytes_moved"] == pytest.approx(60_000 / 128 * 32_000_000)
    assert row["operations_per_byte"] == pytest.approx(1e9 * 60_000 / row["bytes_moved"])


def test_a_model_cut_over_devices_holds_less_on_each(tmp_path):
    rows = ask(tmp_path).splits
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


def test_a_batch_that_does_not_fit_one_device_is_told(tmp_path):
    with pytest.raises(OutOfMemory, match="smaller one"):
        ask(tmp_path, FakeRing(largest_batch=16))


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
