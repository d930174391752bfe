"""Plans: what is written is read back, hand-made changes count, and mistakes are named."""

import io
import os
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from legroom import api
from legroom.errors import CannotWrite, UsageError
from legroom.job import Settings
from legroom.plan_file import Plan, read_plan, write_plan
from legroom.questions.base import Recommendation
from legroom.questions.memory.records import StepPeaks
from legroom.questions.plan.view import print_plan
from legroom.questions.speed.records import TimeSteps
from legroom.reports.page import gather_page
from legroom.reports.saved_answers import read_answers, save_answer
from legroom.requests import JobDescription, MeasureDevice
from legroom.testing import FakeLoaders, FakeMachine, FakeSteps, plant_host
from legroom.training.records import Train

SETTINGS = Settings(batch_size=48, accumulation_steps=2, learning_rate=0.3, clip_norm=1.5, seed=7)
NAMES = ("batch_size", "accumulation_steps", "learning_rate", "clip_norm", "seed")


def make_plan():
    items = [
        Recommendation(name=name, value=getattr(SETTINGS, name), range=(1, 99), because="measured", evidence=["x"])
        for name in NAMES
    ]
    items.append(Recommendation(name="allocator", value="default", range=None, because="proved", evidence=["x"]))
    items.append(Recommendation(name="num_steps", value=420, range=(380, 500), because="measured", evidence=["x"]))
    return Plan(
        job="digits",
        options={"hidden": "32"},
        machine="m",
        goal="time",
        settings=SETTINGS,
        recommendations=items,
        target="score=0.97",
        predicted_seconds=12.5,
        predicted_range=(9.0, 16.0),
        cost_seconds=70.0,
    )


def test_a_plan_is_read_as_it_was_written(tmp_path):
    write_plan(make_plan(), tmp_path / "plan.toml")
    read = read_plan(tmp_path / "plan.toml")
    assert read == make_plan()


def test_a_value_changed_by_hand_counts(tmp_path):
    path = tmp_path / "plan.toml"
    write_plan(make_plan(), path)
    path.write_text(path.read_text().replace("value = 48", "value = 64"))
    assert read_plan(path).settings.batch_size == 64


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            ("[batch_size]", "[batchsize]"),
            r"line 15 has a table \[batchsize\] that no plan has. Close to it: batch_size",
        ),
        (
            ("[batch_size]", "[[batch_size]]"),
            r"line 15: batch_size is no table. Write \[batch_size\] and below it value",
        ),
        (("value = 48", 'value = "many"'), r"line 16: batch_size is 'many'; it must be a whole number of at least 1"),
        (("value = 48", "value = true"), "line 16: batch_size is true; it must be a whole number"),
        (("value = 48", "values = 48"), r"line 16: \[batch_size\] has a key 'values' that no plan has. Known: value"),
        (("value = 48\n", ""), r"line 15: \[batch_size\] has no value"),
        (("value = 48", "value = "), "is no TOML"),
        (("value = 48", "value = [48]"), r"value of \[batch_size\] is \[48\]; it must be one value"),
        (("value = 0.3", "value = -0.3"), "learning_rate is -0.3; it must be a positive number"),
        (("value = 0.3", "value = nan"), "learning_rate is nan; it must be a positive number"),
        (('value = "default"', 'value = "fast"'), r"line \d+: allocator is 'fast'; it must be expandable or default"),
        (('goal = "time"', 'gaol = "time"'), r"line 4 has a key 'gaol' that no plan has. Close to it: goal"),
        (('goal = "time"', "goal = 3"), "line 4: goal is 3; it must be one of fastest"),
        (('goal = "time"', "num_workers = 2"), r"line 4: num_workers is no table. Write \[num_workers\] and"),
        (("[batch_size]", "[num_workers]\nvalue = 100000\n\n[batch_size]"), "num_workers is 100000; .* from 0 to"),
        (("[batch_size]", "[num_devices]\nvalue = 0\n\n[batch_size]"), "num_devices is 0; .* at least 1"),
        (("[batch_size]", '[schedule]\nvalue = "cosin"\n\n[batch_size]'), r"line 16: 'cosin' is no schedule"),
        (
            ("[batch_size]", '[environment]\nvalue = "LD_PRELOAD=x.so"\n\n[batch_size]'),
            "environment is 'LD_PRELOAD=x.so'",
        ),
        (
            ("[batch_size]", "[environment]\nvalue = 2\n\n[batch_size]"),
            "environment is 2; it must be words such as OMP_",
        ),
        *(
            (
                ("[batch_size]", f'[environment]\nvalue = "{words}"\n\n[batch_size]'),
                f"sets {words.split('=')[0]} to .* {must}",
            )
            for words, must in (
                ("OMP_NUM_THREADS=abc", "whole number of at least 1"),
                ("OMP_NUM_THREADS=0", "whole number of at least 1"),
                ("OMP_WAIT_POLICY=lazy", "active or passive"),
                ("MALLOC_MMAP_MAX_=-1", "a whole number"),
                ("MALLOC_TRIM_THRESHOLD_=1e9", "a whole number"),
            )
        ),
        (("range = [1, 99]", "range = 1"), "it must be a list of two numbers"),
        (
            ("range = [1, 99]", 'range = ["a", 3]'),
            r"range of \[batch_size\] is \['a', 3\]; it must be a list of two numbers",
        ),
        (("range = [1, 99]", "range = [true, 3]"), "it must be a list of two numbers"),
        (
            ("[batch_size]", "[prefetch_factor]\nvalue = 100000\n\n[batch_size]"),
            "prefetch_factor is 100000; .* to 1,000",
        ),
        (("value = 420", "value = 0.5"), "num_steps is 0.5; it must be a whole number of at least 1"),
        (("score=0.97", "accuracy"), r"line 5: target is 'accuracy'; it must be text such as \"score=0\.97\""),
        (("cost_seconds = 70.0", "cost_seconds = -1"), "line 8: cost_seconds is -1; it must be a number of seconds"),
        (("predicted_range = [9.0, 16.0]", "predicted_range = [9]"), "line 7: predicted_range is .* a list of two"),
    ],
)
def test_mistakes_in_a_plan_are_named(tmp_path, change, words):
    path = tmp_path / "plan.toml"
    write_plan(make_plan(), path)
    path.write_text(path.read_text().replace(*change))
    with pytest.raises(UsageError, match=words):
        read_plan(path)


@pytest.mark.parametrize("content", [b"", b'job = "digits"\n', b"# nothing yet\n"])
def test_a_plan_that_names_no_setting_is_refused(tmp_path, content):
    (tmp_path / "plan.toml").write_bytes(content)
    with pytest.raises(UsageError, match=r"plan\.toml names no setting"):
        read_plan(tmp_path / "plan.toml")


def test_a_folder_in_place_of_a_plan_is_answered_with_the_file_in_it(tmp_path):
    with pytest.raises(UsageError, match=r"is a folder. Name the file in it: .*plan\.toml"):
        read_plan(tmp_path)


def test_a_file_that_is_no_text_is_no_plan(tmp_path):
    (tmp_path / "plan.toml").write_bytes(b"\xff\xfe\x00PK")
    with pytest.raises(UsageError, match="is no text"):
        read_plan(tmp_path / "plan.toml")


def test_a_plan_for_several_devices_keeps_to_the_one_that_is_trained_on(tmp_path):
    answer = ask_plan(tmp_path, FakeMachine(baseline=Settings(num_devices=2)))
    assert answer.num_devices == read_plan(Path(answer.plan_path)).settings.num_devices == 1
    assert "the job's own is 2" in item(answer, "num_devices").because


@pytest.mark.parametrize(
    ("name", "value"),
    [("batch_size", True), ("num_workers", 100_000), ("seed", 0.5), ("clip_norm", "1"), ("schedule", 3)],
)
def test_settings_in_code_obey_the_same_rules(name, value):
    with pytest.raises(UsageError, match=rf"Settings.{name} is {value!r}; it must be"):
        Settings(**{name: value})


def test_a_missing_plan_is_named(tmp_path):
    with pytest.raises(UsageError, match="legroom plan writes one"):
        read_plan(tmp_path / "plan.toml")


def test_a_plan_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "plan.toml"
    write_plan(make_plan(), path)
    before = path.read_text()
    monkeypatch.setattr(os, "fsync", lambda descriptor: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(CannotWrite, match=r"Cannot write .*plan.toml: disk full"):
        write_plan(make_plan(), path)
    assert path.read_text() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["plan.toml"]


# --- the question: answers that lie in the folder, and a proof that is bounded by what could pay --------------------


def ask_plan(out, machine, **more):
    return api.plan("digits", device="cpu", run=api.Run(out=out, engine=machine), **more)


def item(answer, name):
    return next(found for found in answer.recommendations if found.name == name)


def sizes_run(machine):
    """Batch sizes at which memory was measured or proved."""
    return [request.batch_size for request in machine.asked if isinstance(request, StepPeaks)]


def machine_of(**planted):
    """A machine whose knee lies far above the job's own batch of 32, with slow samples, and a job nothing judges."""
    steps = FakeSteps(seconds=lambda size: 0.01 + 0.0001 * size)
    planted = {"num_samples": 60_000, "has_valid": False, **planted}
    return FakeMachine(steps=steps, loaders=FakeLoaders(num_cores=4), **planted)


@pytest.fixture
def asked(tmp_path):
    """The machine and the answers to speed and loading in the folder that a plan will be asked in."""
    machine = machine_of(bytes_per_sample=1e4)
    run = api.Run(out=tmp_path, engine=machine)
    return machine, api.speed("digits", device="cpu", run=run), api.loading("digits", device="cpu", run=run)


@pytest.mark.parametrize("lacks", [{"has_valid": False}, {"own_step": True}])
def test_where_no_rate_can_be_sought_the_batch_stays_and_the_knee_is_told(tmp_path, lacks):
    """A larger batch makes fewer updates of an epoch: with the rate that stays it learns less, which nobody judges."""
    machine = machine_of(bytes_per_sample=1e4, **{"has_valid": True, **lacks})
    run = api.Run(out=tmp_path, engine=machine)
    speed, loading = api.speed("digits", device="cpu", run=run), api.loading("digits", device="cpu", run=run)
    answer = ask_plan(tmp_path, machine)
    assert (answer.batch_size, answer.accumulation_steps, answer.learning_rate) == (32, 1, 0.001)
    assert (answer.num_workers, answer.prefetch_factor) == (loading.num_workers, loading.prefetch_factor)
    assert speed.range[0] > 32
    assert any(f"up to batches of {speed.knee_batch_size:,}" in note and "rate" in note for note in answer.notes)
    assert answer.predicted_seconds is None
    assert any(sentence.startswith("Rate, schedule and length are the job's own") for sentence in answer.missing)
    assert item(answer, "batch_size").evidence == ["step_peaks"]
    assert item(answer, "num_workers").evidence == ["loader_rates"]
    assert not any("how fast samples are loaded" in what for what in answer.not_measured)
    assert read_plan(Path(answer.plan_path)).settings.batch_size == 32


def test_where_no_rate_can_be_sought_a_batch_that_was_named_is_used_and_the_rate_is_called_unmeasured(tmp_path):
    answer = ask_plan(tmp_path, machine_of(bytes_per_sample=1e4), batch_size=256)
    assert (answer.batch_size, answer.accumulation_steps) == (256, 1)
    assert any("which rate suits" in note and "0.001" in note for note in answer.notes)
    smaller = ask_plan(tmp_path, machine_of(bytes_per_sample=1e4), batch_size=16)
    assert (smaller.batch_size, smaller.accumulation_steps) == (16, 2), "its update is as large as the job's own"


@pytest.mark.parametrize("batch_size", [None, 256])
def test_no_batch_above_the_one_to_be_run_is_proved(tmp_path, asked, batch_size):
    machine, _, _ = asked
    answer = ask_plan(tmp_path, machine, batch_size=batch_size)
    assert max(sizes_run(machine)) == item(answer, "max_batch_size").value == answer.batch_size
    bound = f"Batches above {answer.batch_size:,} were not tried: the plan runs none larger"
    assert any(note.startswith(bound) for note in answer.notes)


def test_a_named_budget_proved_up_to_a_multiple_of_the_jobs_own_batch_bounds_no_timing_and_is_told(tmp_path):
    machine = machine_of(bytes_per_sample=1e4, baseline=Settings(batch_size=4, num_workers=4))
    answer = ask_plan(tmp_path, machine, memory="700MB")
    assert item(answer, "max_batch_size").value == 64
    assert any("Batches above 64 were not tried: that is 16 times the job's own" in note for note in answer.notes)
    timed = [size for request in machine.asked if isinstance(request, TimeSteps) for size in request.batch_sizes]
    assert max(timed) > 64


def test_memory_and_a_plan_that_nothing_bounds_agree_on_the_largest_batch(tmp_path):
    for bytes_per_sample in (4e6, 1.5e6, 6e6):
        machines = [machine_of(bytes_per_sample=bytes_per_sample, baseline=Settings(num_workers=4)) for _ in range(2)]
        alone, planned = tmp_path / f"{bytes_per_sample}-alone", tmp_path / f"{bytes_per_sample}-planned"
        run = api.Run(out=alone, engine=machines[0])
        found = api.memory("digits", device="cpu", memory="700MB", run=run)
        answer = ask_plan(planned, machines[1], memory="700MB")
        assert item(answer, "max_batch_size").value == found.max_batch_size < 16 * 32


def test_speed_and_loading_are_asked_where_nobody_asked_them(tmp_path):
    machine = machine_of(bytes_per_sample=1e4)
    answer = ask_plan(tmp_path, machine)
    assert answer.num_workers > 0
    assert set(answer.spent) == {"speed", "loading", "variants", "environment", "memory", "device"}


def test_what_memory_proved_caps_a_batch_that_was_named(tmp_path):
    answer = ask_plan(tmp_path, machine_of(bytes_per_sample=4e6), memory="700MB", batch_size=512)
    assert 32 < answer.batch_size == item(answer, "max_batch_size").value <= 100
    assert "the most proved to fit" in item(answer, "batch_size").because
    assert not any("were not tried" in note for note in answer.notes)


def test_memory_is_proved_beside_the_loader_processes_that_the_plan_names(tmp_path):
    machine = machine_of(bytes_per_sample=4e6)
    run = api.Run(out=tmp_path, engine=machine)
    api.memory("digits", device="cpu", memory="700MB", run=run)  # beside none, as the job has it
    for memory in ("700MB", None):
        answer = ask_plan(tmp_path, machine, memory=memory)
        proofs = [request for request in machine.asked if isinstance(request, StepPeaks) and request.proof]
        assert answer.num_workers == proofs[-1].num_workers > 0


@pytest.mark.parametrize("words", [{"batch_sizes": [4, 8]}, {"share": 0.5}, {"rule": "utilisation"}])
def test_a_speed_answer_by_another_rule_or_of_named_sizes_is_kept_beside_and_left_alone(tmp_path, words):
    machine = machine_of(bytes_per_sample=1e4)
    machine.steps.utilisation = lambda size: min(0.98, 0.1 + size / 300)
    api.speed("digits", device="cpu", run=api.Run(out=tmp_path, engine=machine))
    api.speed("digits", device="cpu", run=api.Run(out=tmp_path, engine=machine), **words)
    assert len([saved for saved in read_answers(tmp_path)[0] if saved.question == "speed"]) == 2
    assert "speed" not in ask_plan(tmp_path, machine).spent
    api.speed("digits", device="cpu", run=api.Run(out=tmp_path / "alone", engine=machine), **words)
    assert "speed" in ask_plan(tmp_path / "alone", machine).spent


def test_a_memory_answer_in_the_folder_is_not_proved_again(tmp_path):
    machine = machine_of(bytes_per_sample=4e6, baseline=Settings(num_workers=4))
    run = api.Run(out=tmp_path, engine=machine)
    found = api.memory("digits", device="cpu", memory="700MB", run=run)
    num_asked = len(sizes_run(machine))
    answer = ask_plan(tmp_path, machine, memory="700MB")
    assert len(sizes_run(machine)) == num_asked
    assert item(answer, "max_batch_size").value == found.max_batch_size
    ask_plan(tmp_path, machine, memory="600MB")
    assert len(sizes_run(machine)) > num_asked


@pytest.mark.parametrize("changed", [{"precision": "bf16"}, {"device": "cuda", "memory": "1GiB"}])
def test_answers_of_another_device_or_precision_are_left_alone(tmp_path, asked, changed):
    machine, _, _ = asked
    machine.asked.clear()
    answer = api.plan("digits", run=api.Run(out=tmp_path, engine=machine), **{"device": "cpu", **changed})
    timed = [request.precision for request in machine.asked if isinstance(request, TimeSteps)]
    assert set(timed) == ({"bf16"} if "precision" in changed else set())
    assert ("speed" in answer.spent) == ("precision" in changed)


def test_answers_from_before_the_jobs_file_changed_are_told_and_left_alone(tmp_path):
    job, machine = tmp_path / "mine.py", machine_of(bytes_per_sample=1e4)
    job.write_text("old = 1")
    run = api.Run(out=tmp_path / "out", engine=machine)
    api.speed(f"{job}:job", device="cpu", run=run)
    job.write_text("new = 2")
    answer = api.plan(f"{job}:job", device="cpu", run=run)
    assert "speed" in answer.spent
    assert any("speed" in note and "before the job's file changed" in note for note in answer.notes)


def test_answers_from_another_environment_are_told_and_left_alone(tmp_path, monkeypatch):
    machine = machine_of(bytes_per_sample=1e4)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    api.speed("digits", device="cpu", run=api.Run(out=tmp_path, engine=machine))
    assert "speed" not in ask_plan(tmp_path, machine).spent
    monkeypatch.delenv("OMP_NUM_THREADS")
    answer = ask_plan(tmp_path, machine)
    assert "speed" in answer.spent
    assert any("speed" in note and "OMP_NUM_THREADS" in note for note in answer.notes)


def test_passes_are_proved_with_the_gradients_that_are_held_between_them(tmp_path):
    machine = FakeMachine(bytes_per_sample=40e6, fixed_bytes=300e6, gradient_bytes=200e6)
    answer = ask_plan(tmp_path, machine, memory="1GB")
    assert answer.batch_size * answer.accumulation_steps >= 32
    assert machine.memory.peak_bytes(answer.batch_size) + 200e6 <= 1e9
    assert any(request.accumulation_steps > 1 for request in machine.asked if isinstance(request, StepPeaks))


def test_a_job_with_its_own_step_is_not_told_to_accumulate(tmp_path):
    answer = ask_plan(tmp_path, FakeMachine(bytes_per_sample=40e6, own_step=True), memory="1GB")
    assert (answer.batch_size, answer.accumulation_steps) == (item(answer, "max_batch_size").value, 1)
    assert "its own step" in item(answer, "batch_size").because


def test_a_knee_that_may_lie_below_the_jobs_own_batch_is_not_told(tmp_path, asked):
    machine, speed, _ = asked
    save_answer(tmp_path, replace(speed, range=(24, 512)))
    answer = ask_plan(tmp_path, machine)
    assert answer.batch_size == 32
    assert not any("up to batches of" in note for note in answer.notes)


def test_a_plan_does_not_pass_its_bounded_proof_off_as_the_largest_batch(tmp_path, asked):
    machine, _, _ = asked
    ask_plan(tmp_path, machine)
    assert not list((tmp_path / "answers").glob("memory*"))
    sections = {part.question: part for part in gather_page(tmp_path).sections}
    assert list(sections) == ["plan", "memory", "speed", "loading", "variants"]
    assert any(note.startswith("Batches above 32 were not tried") for note in sections["memory"].notes)


def test_the_page_says_when_an_answer_is_newer_than_the_plan(tmp_path):
    machine = machine_of(bytes_per_sample=1e4)
    ask_plan(tmp_path, machine)
    assert "made before" not in gather_page(tmp_path).sections[0].section.summary
    api.speed("digits", device="cpu", run=api.Run(out=tmp_path, engine=machine))
    assert "It was made before the answer to speed below" in gather_page(tmp_path).sections[0].section.summary
    ask_plan(tmp_path, machine)
    assert "made before" not in gather_page(tmp_path).sections[0].section.summary


def test_a_terminal_says_in_one_sentence_what_a_forecast_would_need(tmp_path):
    answer = ask_plan(tmp_path, machine_of(bytes_per_sample=1e4))
    said = io.StringIO()
    print_plan(Console(file=said, width=400), answer)
    lines = said.getvalue().splitlines()
    assert [line for line in lines if "  - Rate, schedule and length are the job's own" in line] != []
    assert lines[2].startswith(f"Batch {answer.batch_size:,}, rate 0.001 (the job's own)")
    assert not any("not measured" in line.lower() for line in lines if "watch the score" not in line)


def test_variables_that_paid_reach_the_run_through_the_plan_alone(tmp_path, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)  # with one thread, sleeping ones are not tried
    steps = FakeSteps(seconds=lambda size: 0.01 + 0.0001 * size, setting_factors={"OMP_WAIT_POLICY": 0.5})
    machine = FakeMachine(steps=steps, bytes_per_sample=1e4, has_valid=False)
    run = api.Run(out=tmp_path, engine=machine, host=plant_host(num_cores=2))
    api.speed("digits", device="cpu", run=run)
    answer = api.plan("digits", device="cpu", run=run)
    assert item(answer, "environment").value == "OMP_WAIT_POLICY=passive"
    for plan in (None, answer.plan_path):
        api.train("digits", device="cpu", plan=plan, num_steps=1, run=replace(run, out=tmp_path / str(bool(plan))))
    without, with_plan = (request.environment for request in machine.asked if isinstance(request, Train))
    assert without == {}
    assert with_plan == {"OMP_WAIT_POLICY": "passive"}


def with_torch(machine, version):
    """The machine with another torch."""
    whole = machine.answer

    def answer(request):
        found = whole(request)
        return replace(found, torch_version=version) if isinstance(found, JobDescription) else found

    machine.answer = answer
    return machine


def test_answers_made_with_another_torch_are_told_and_left_alone(tmp_path, asked):
    machine, _, _ = asked
    same = ask_plan(tmp_path, with_torch(machine, "planted"))
    other = ask_plan(tmp_path, with_torch(machine, "another"))
    assert "speed" not in same.spent
    assert {"speed", "loading"} <= set(other.spent)
    assert any("speed" in note and "another machine, torch or legroom" in note for note in other.notes)


def test_answers_made_by_another_legroom_are_left_alone(tmp_path, asked, monkeypatch):
    machine, _, _ = asked
    monkeypatch.setattr("legroom.__version__", "99.0")
    assert {"speed", "loading"} <= set(ask_plan(tmp_path, machine).spent)


def test_a_fresh_plan_leaves_the_answers_in_the_folder_alone(tmp_path, asked):
    machine, _, _ = asked
    assert "speed" not in ask_plan(tmp_path, machine).spent
    assert {"speed", "loading"} <= set(ask_plan(tmp_path, machine, fresh=True).spent)
    with pytest.raises(UsageError, match="--fresh asks all anew, and --resume"):
        api.plan("digits", device="cpu", fresh=True, run=api.Run(out=tmp_path, engine=machine, resume=True))


def test_a_batch_larger_than_the_data_is_refused_before_anything_is_timed(tmp_path):
    for words in ({}, {"memory": "700MB"}):
        machine = machine_of(bytes_per_sample=1e4)
        with pytest.raises(UsageError, match="--batch-size 60,001 is more than the 60,000 samples there are"):
            ask_plan(tmp_path, machine, batch_size=60_001, **words)
        assert not [request for request in machine.asked if isinstance(request, TimeSteps | StepPeaks)]


def test_how_fast_the_device_is_stays_in_the_folder_for_cards_that_are_named_later(tmp_path):
    machine = machine_of(bytes_per_sample=1e4)
    answer = ask_plan(tmp_path, machine)
    assert [request for request in machine.asked if isinstance(request, MeasureDevice)] != []
    assert "device" in answer.spent
