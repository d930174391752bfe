"""A plan is held against the best point of a sweep, and every arm trains on its own number of devices."""

import pytest

from legroom import api
from legroom.errors import UsageError
from legroom.job import Settings
from legroom.logbook import read_records
from legroom.session import advise_again
from legroom.testing import FakeLearner, FakeMachine, FakeMemory, FakeRuns, plant_host
from legroom.training.records import Train

NUM_SAMPLES = 3200
PLAN = """job = "digits"
target = "loss=0.1"
[batch_size]
value = 256
[learning_rate]
value = 0.1
[num_steps]
value = 400
"""
SEVERAL = "[num_devices]\nvalue = {}\n"


def learned(request, num_steps):
    """The loss of a learner whose best rate is 0.1; a factor of ten from it takes ten times as many updates."""
    rate, size = float(request.settings["learning_rate"]), int(request.settings["batch_size"])
    size *= request.several.get("num_local", 1)
    needed = FakeLearner(s_min=100, b_crit=64, best_rate=0.1).updates_needed(size)
    return 2.3 * (0.1 / 2.3) ** (min(rate / 0.1, 0.1 / rate) * num_steps / needed)


def machine(**baseline):
    own = Settings(**{"batch_size": 32, "learning_rate": 0.02, "num_epochs": 10, **baseline})
    runs = FakeRuns(loss=learned, step_seconds=lambda request: 0.01, num_samples=NUM_SAMPLES)
    return FakeMachine(memory=FakeMemory(num_samples=NUM_SAMPLES, baseline=own), runs=runs)


def ask(folder, engine=None, *, more="", **words):
    (folder / "plan.toml").write_text(PLAN + more)
    words = {"plan": folder / "plan.toml", **words}
    run = api.Run(out=folder / "out", engine=engine or machine(), host=plant_host(num_cores=4))
    return api.prove("digits", device="cpu", run=run, **words)


def sweep(folder, rates=(0.01, 0.1), **words):
    run = api.Run(out=folder / "out", engine=machine(), host=plant_host(num_cores=4))
    api.sweep("digits", device="cpu", batch_sizes=(32, 128), rates=rates, run=run, **words)


def test_the_rival_is_the_point_of_the_sweep_that_met_the_target_first(tmp_path):
    sweep(tmp_path)
    answer = ask(tmp_path, against="sweep")
    assert (answer.rival_settings["batch_size"], answer.rival_settings["learning_rate"]) == (128, 0.1)
    assert any("batch 128 at a rate of 0.1 met the target first" in note for note in answer.notes)
    assert answer.against == "sweep"
    assert advise_again(tmp_path / "out", "prove") == answer


def test_where_no_point_met_the_target_the_rival_is_the_best_of_them(tmp_path):
    sweep(tmp_path, rates=(0.0001, 0.001), epochs=1)
    answer = ask(tmp_path, against="sweep")
    # An epoch has 100 updates of 32 and 25 of 128: the smaller batch got further in it.
    assert (answer.rival_settings["batch_size"], answer.rival_settings["learning_rate"]) == (32, 0.001)
    assert any("none met the target; batch 32 at a rate of 0.001 came nearest" in note for note in answer.notes)


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_folder_without_a_sweep_of_this_machine_is_refused(tmp_path, elsewhere):
    if elsewhere:
        run = api.Run(out=tmp_path / "out", engine=machine(), host=plant_host(num_cores=64))
        api.sweep("digits", device="cpu", batch_sizes=(32,), rates=(0.1,), run=run)
    with pytest.raises(UsageError, match=r"There is no sweep to prove against in .* Run legroom sweep with the same"):
        ask(tmp_path, against="sweep")


def test_every_arm_trains_on_its_own_number_of_devices(tmp_path):
    engine = machine()
    answer = ask(tmp_path, engine, more=SEVERAL.format(2), seeds=1)
    asked = [request for request in engine.asked if isinstance(request, Train)]
    found = {request.settings["batch_size"]: request.several.get("num_local", 1) for request in asked}
    assert found == {32: 1, 256: 2}
    samples = {request.evaluate_steps * request.settings["batch_size"] * found[request.settings["batch_size"]]
               for request in asked}  # fmt: skip
    assert samples == {1600, 3 * 512}, "both are looked at as often in samples of all devices"
    assert answer.plan_settings["num_devices"] == 2


def test_the_jobs_own_devices_are_taken_where_they_are_here_and_told_where_not(tmp_path):
    for num, here in ((4, True), (8, False)):
        engine = machine(num_devices=num)
        answer = ask(tmp_path, engine, seeds=1)
        asked = [request for request in engine.asked if isinstance(request, Train)]
        rival = next(request for request in asked if request.settings["batch_size"] == 32)
        assert rival.several.get("num_local") == (num if here else None)
        assert any("name 8 devices, more than are here" in note for note in answer.notes) != here


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (SEVERAL.format(8), r"line 10, \[num_devices\]: 8 processes, .* than there is room for here. Name at most 4"),
        ("[num_workers]\nvalue = 300\n", r"line 10, \[num_workers\]: num_workers is 300; it must be .* from 0 to 64"),
        (SEVERAL.format(2), r"line 4, \[batch_size\]: .* has 3,200 samples. Name at most 1,600 for each device"),
    ],
)
def test_what_cannot_be_run_here_is_refused_with_its_line_before_anything_is_trained(tmp_path, more, message):
    engine = machine()
    plan = PLAN.replace("256", "3200") if "batch_size" in message else PLAN
    (tmp_path / "given.toml").write_text(plan + more)
    with pytest.raises(UsageError, match=r"given.toml, " + message):
        ask(tmp_path, engine, plan=tmp_path / "given.toml")
    assert not [request for request in engine.asked if isinstance(request, Train)]


def test_a_model_size_that_the_job_cannot_make_is_refused_with_its_line_before_anything_is_trained(tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text('job = "digits"\ntarget = "loss=9.0"\n[model_size]\nvalue = "foo=3"\n')
    run = api.Run(out=tmp_path / "out", host=plant_host())
    with pytest.raises(UsageError, match=r"plan.toml, line 4, \[model_size\]: .*foo=3 cannot be made: .* width, depth"):
        api.prove("digits", device="cpu", plan=plan, run=run)
    assert not [entry for entry in read_records(run.out, "prove").entries if isinstance(entry.request, Train)]


def test_two_processes_and_one_are_compared_for_real(tmp_path):
    """Each run of the plan sees its batch twice an update, and both meet a target that any run meets."""
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'job = "digits"\ntarget = "loss=9.0"\n[batch_size]\nvalue = 16\n[num_devices]\nvalue = 2\n'
        "[num_steps]\nvalue = 8\n"
    )
    run = api.Run(out=tmp_path / "out", host=plant_host())
    answer = api.prove(
        "digits", device="cpu", plan=plan, seeds=1, equal_time=False, evaluate_samples=128, force=True, run=run
    )
    mine, others = (next(point for point in answer.points if point["arm"] == arm) for arm in ("plan", "rival"))
    assert (mine["reached"], others["reached"]) == (True, True)
    assert mine["run_steps"] == 4, "four updates of twice 16 are 128 samples"
    runs = {entry.request.settings["num_devices"]: entry.result for entry in read_records(run.out, "prove").entries[1:]}
    assert (runs[2].num_steps, runs[2].num_samples) == (4, 128)
